// Objects that a program knows by pointer. A pointer is never given out twice, so one that is used
// after its object has gone is always noticed.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>

namespace encore::standin {

template <typename T>
class Handles {
 public:
  T* add(std::unique_ptr<T> object) {
    T* handle = object.get();
    live_.emplace(handle, std::move(object));
    return handle;
  }
  bool has(const T* handle) const { return live_.find(handle) != live_.end(); }
  // The object is gone, its address stays taken. Returns what it held.
  T remove(T* handle) {
    auto node = live_.extract(handle);
    T held = std::move(*node.mapped());
    gone_.insert(std::move(node));
    return held;
  }
  int64_t size() const { return static_cast<int64_t>(live_.size()); }
  template <typename Visit>
  void each(Visit visit) {
    for (auto& [handle, object] : live_) visit(*object);
  }

 private:
  std::unordered_map<const T*, std::unique_ptr<T>> live_;
  std::unordered_map<const T*, std::unique_ptr<T>> gone_;
};

}  // namespace encore::standin
