// Structs as a host of another version would hand them over: longer, with poison where this version
// ends, or shorter, with nothing at all behind their end.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "encore/backend_abi.h"

namespace encore::check {

inline constexpr uint8_t kPoison = 0xAA;
inline constexpr size_t kExtraBytes = 64;  // by which longer structs are longer

// Bytes that end where a page ends that cannot be read or written.
class FencedBytes {
 public:
  explicit FencedBytes(size_t size);
  ~FencedBytes();
  FencedBytes(const FencedBytes&) = delete;
  FencedBytes& operator=(const FencedBytes&) = delete;

  uint8_t* data() { return data_; }
  const uint8_t* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  void* mapping_ = nullptr;
  size_t mapped_bytes_ = 0;
  uint8_t* data_ = nullptr;
  size_t size_;
};

enum class Cut : int32_t {
  kExact,    // as this version has it
  kLonger,   // kExtraBytes of poison behind the end, and struct_size says that they belong
  kShorter,  // without the fields at the end for which zero means "as before"
};

// Where a struct may end so that what is missing changes nothing for a rule that sets it to zero.
template <typename T>
constexpr size_t short_size() {
  return sizeof(T);
}
template <>
constexpr size_t short_size<encore_capture_options>() {
  return offsetof(encore_capture_options, progress);
}
template <>
constexpr size_t short_size<encore_kv_options>() {
  return offsetof(encore_kv_options, dtype);
}
template <>
constexpr size_t short_size<encore_load_options>() {
  return offsetof(encore_load_options, progress);
}
template <>
constexpr size_t short_size<encore_runner_limits>() {
  return offsetof(encore_runner_limits, max_history);
}

// Cuts structs and arrays; what it hands out lives as long as it does. One thread.
class Tailor {
 public:
  explicit Tailor(Cut cut) : cut_(cut) {}

  // A struct that starts with its size, as an input.
  template <typename T>
  const T* fit(T value) {
    const size_t size = size_of<T>();
    value.struct_size = size;
    return reinterpret_cast<const T*>(store(&value, sizeof(T), size));
  }

  // The stride that array elements of this cut have, and the array.
  template <typename T>
  uint64_t stride() const {
    return cut_ == Cut::kLonger ? sizeof(T) + kExtraBytes : sizeof(T);
  }
  template <typename T>
  const T* array(const std::vector<T>& elements) {
    const size_t step = stride<T>();
    FencedBytes& bytes = fenced(elements.size() * step);
    for (size_t i = 0; i < elements.size(); ++i) {
      std::memcpy(bytes.data() + i * step, &elements[i], sizeof(T));
    }
    return reinterpret_cast<const T*>(bytes.data());
  }

 private:
  template <typename T>
  size_t size_of() const {
    if (cut_ == Cut::kLonger) return sizeof(T) + kExtraBytes;
    return cut_ == Cut::kShorter ? short_size<T>() : sizeof(T);
  }
  FencedBytes& fenced(size_t size);  // filled with poison
  void* store(const void* value, size_t value_bytes, size_t size);

  Cut cut_;
  std::vector<std::unique_ptr<FencedBytes>> kept_;
};

// An output struct of a given size with a field of poison behind it, to see what a plugin writes.
template <typename T>
class OutputSlot {
 public:
  // REQUIRES: stated_bytes >= 8.
  explicit OutputSlot(size_t stated_bytes) : stated_bytes_(stated_bytes) {
    bytes_.assign(std::max(sizeof(T), stated_bytes) + kExtraBytes, kPoison);
    std::fill(bytes_.begin(), bytes_.begin() + std::min(stated_bytes, sizeof(T)), uint8_t{0});
    const uint64_t size = stated_bytes;
    std::memcpy(bytes_.data(), &size, sizeof(size));
  }

  T* get() { return reinterpret_cast<T*>(bytes_.data()); }

  // Empty if the plugin kept to what it may write; else what it did.
  std::string fault() const {
    uint64_t size = 0;
    std::memcpy(&size, bytes_.data(), sizeof(size));
    if (size != stated_bytes_) return "changed struct_size to " + std::to_string(size);
    for (size_t i = std::min(stated_bytes_, sizeof(T)); i < bytes_.size(); ++i) {
      if (bytes_[i] != kPoison) {
        return "wrote byte " + std::to_string(i) + " of a struct that this version ends at " +
               std::to_string(std::min(stated_bytes_, sizeof(T)));
      }
    }
    return "";
  }

 private:
  size_t stated_bytes_;
  std::vector<uint8_t> bytes_;
};

}  // namespace encore::check
