// Reading and writing the structs of backend_abi.h under its size rule, from either side.
//
// Both sides may know more fields than the other. A reader copies min(sizes) over zeroes; a writer
// writes min(sizes) and leaves the owner's struct_size alone.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>

namespace encore::sdk {

// A zeroed struct of this build's size, ready to be passed as an output.
template <typename T>
T sized() {
  static_assert(std::is_trivially_copyable_v<T> && offsetof(T, struct_size) == 0);
  T value{};
  value.struct_size = sizeof(T);
  return value;
}

// The fields of `*source` that both sides know; the rest is zero. `source` may be null: all zero.
// struct_size becomes this build's own.
template <typename T>
T read_sized(const T* source) {
  T value = sized<T>();
  if (source == nullptr) return value;
  uint64_t stated = 0;
  std::memcpy(&stated, source, sizeof(stated));
  const size_t bytes = static_cast<size_t>(std::min<uint64_t>(stated, sizeof(T)));
  if (bytes > sizeof(stated)) {
    std::memcpy(reinterpret_cast<char*>(&value) + sizeof(stated),
                reinterpret_cast<const char*>(source) + sizeof(stated), bytes - sizeof(stated));
  }
  return value;
}

// Writes the fields of `value` that the owner of `*destination` knows.
template <typename T>
void write_sized(const T& value, T* destination) {
  uint64_t stated = 0;
  std::memcpy(&stated, destination, sizeof(stated));
  const size_t bytes = static_cast<size_t>(std::min<uint64_t>(stated, sizeof(T)));
  if (bytes > sizeof(stated)) {
    std::memcpy(reinterpret_cast<char*>(destination) + sizeof(stated),
                reinterpret_cast<const char*>(&value) + sizeof(stated), bytes - sizeof(stated));
  }
}

// An array whose elements may be longer or shorter than this build's T. Borrows the array.
template <typename T>
class StridedArray {
 public:
  StridedArray(const T* data, uint64_t count, uint64_t stride)
      : data_(reinterpret_cast<const char*>(data)),
        count_(data == nullptr ? 0 : static_cast<size_t>(count)),
        stride_(static_cast<size_t>(stride)) {}

  size_t size() const { return count_; }

  // A copy of the fields that both sides know; the rest is zero.
  T operator[](size_t index) const {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    std::memcpy(&value, data_ + index * stride_, std::min(stride_, sizeof(T)));
    return value;
  }

  // Whether the elements are exactly T, so that they can be read in place.
  bool exact() const { return stride_ == sizeof(T); }

 private:
  const char* data_;
  size_t count_;
  size_t stride_;
};

// A span over a pointer and a count that came across; a null pointer is empty.
template <typename T>
std::span<T> span_of(T* data, uint64_t count) {
  return data == nullptr ? std::span<T>() : std::span<T>(data, static_cast<size_t>(count));
}

}  // namespace encore::sdk
