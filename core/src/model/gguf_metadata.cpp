#include "model/gguf_metadata.h"

#include <algorithm>
#include <optional>
#include <type_traits>
#include <utility>

#include "model/printable.h"

namespace encore {
namespace {

constexpr uint64_t kMinKeyBytes = 8 + 4 + 1;
constexpr uint64_t kMaxKeyBytes = 64 * 1024;
constexpr uint64_t kMaxStringBytes = 64 << 20;
constexpr uint64_t kMaxElements = 1 << 24;
constexpr uint64_t kFirstReserve = 1 << 16;  // elements; more only as the file provides them
constexpr int kMaxNesting = 4;
constexpr int64_t kMaxHeaderBytes = 1 << 30;

enum class ValueType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

// Bytes of the smallest value of a type; 0 if there is no such type.
uint64_t min_bytes(ValueType type) {
  switch (type) {
    case ValueType::kU8:
    case ValueType::kI8:
    case ValueType::kBool:
      return 1;
    case ValueType::kU16:
    case ValueType::kI16:
      return 2;
    case ValueType::kU32:
    case ValueType::kI32:
    case ValueType::kF32:
      return 4;
    case ValueType::kString:
    case ValueType::kU64:
    case ValueType::kI64:
    case ValueType::kF64:
      return 8;
    case ValueType::kArray:
      return 4 + 8;
  }
  return 0;
}

class MetadataReader {
 public:
  MetadataReader(FileCursor& cursor, const std::string& path) : cursor_(cursor), path_(path) {}

  Status read_key(GgufMetadata* metadata) {
    uint64_t bytes = 0;
    key_.clear();
    ENCORE_RETURN_IF_ERROR(cursor_.read(&bytes, "the length of a key"));
    if (bytes > kMaxKeyBytes) {
      return damaged(
          concat_message("a key's name is ", bytes, " bytes long; the limit is ", kMaxKeyBytes));
    }
    ENCORE_RETURN_IF_ERROR(cursor_.read_text(bytes, &key_, "a key's name"));
    if (metadata->find(key_) != metadata->end()) {
      return damaged(concat_message("key ", printable(key_), " is there twice"));
    }
    auto type = ValueType::kU8;
    ENCORE_RETURN_IF_ERROR(read_type(&type));
    std::optional<GgufValue> value;
    ENCORE_RETURN_IF_ERROR(type == ValueType::kArray ? read_array(&value)
                                                     : read_scalar(type, &value));
    if (value) metadata->emplace(key_, *std::move(value));
    if (cursor_.position() > kMaxHeaderBytes) {
      return damaged(
          concat_message("its key-value section passes the limit of ", kMaxHeaderBytes, " bytes"));
    }
    return {};
  }

 private:
  Status damaged(const std::string& text) const {
    return data_loss(concat_message("file ", printable(path_), ": ", text));
  }

  Status read_type(ValueType* type) {
    uint32_t number = 0;
    ENCORE_RETURN_IF_ERROR(cursor_.read(&number, "a value's type"));
    *type = static_cast<ValueType>(number);
    if (min_bytes(*type) > 0) return {};
    return damaged(concat_message("key ", printable(key_), " has a value of unknown type ", number,
                                  "; expected 0 to 12"));
  }

  template <typename Stored, typename Kept>
  Status read_number(std::optional<GgufValue>* value) {
    Stored number{};
    ENCORE_RETURN_IF_ERROR(cursor_.read(&number, "a value"));
    *value = GgufValue(static_cast<Kept>(number));
    return {};
  }

  Status read_scalar(ValueType type, std::optional<GgufValue>* value) {
    switch (type) {
      case ValueType::kU8:
        return read_number<uint8_t, uint64_t>(value);
      case ValueType::kI8:
        return read_number<int8_t, int64_t>(value);
      case ValueType::kU16:
        return read_number<uint16_t, uint64_t>(value);
      case ValueType::kI16:
        return read_number<int16_t, int64_t>(value);
      case ValueType::kU32:
        return read_number<uint32_t, uint64_t>(value);
      case ValueType::kI32:
        return read_number<int32_t, int64_t>(value);
      case ValueType::kU64:
        return read_number<uint64_t, uint64_t>(value);
      case ValueType::kI64:
        return read_number<int64_t, int64_t>(value);
      case ValueType::kF32:
        return read_number<float, double>(value);
      case ValueType::kF64:
        return read_number<double, double>(value);
      case ValueType::kBool:
        return read_number<uint8_t, bool>(value);
      case ValueType::kString: {
        std::string text;
        ENCORE_RETURN_IF_ERROR(read_string(&text));
        *value = GgufValue(std::move(text));
        return {};
      }
      case ValueType::kArray:
        break;
    }
    return internal_error("read_scalar was asked for an array");
  }

  Status read_string(std::string* text) {
    uint64_t bytes = 0;
    ENCORE_RETURN_IF_ERROR(cursor_.read(&bytes, "the length of a string"));
    if (bytes > kMaxStringBytes) {
      return damaged(concat_message("key ", printable(key_), " holds a string of ", bytes,
                                    " bytes; the limit is ", kMaxStringBytes));
    }
    return cursor_.read_text(bytes, text, "a string");
  }

  Status read_array_head(ValueType* type, uint64_t* count) {
    ENCORE_RETURN_IF_ERROR(read_type(type));
    ENCORE_RETURN_IF_ERROR(cursor_.read(count, "the length of an array"));
    const uint64_t most =
        std::min(kMaxElements, static_cast<uint64_t>(cursor_.remaining()) / min_bytes(*type));
    if (*count <= most) return {};
    return damaged(concat_message("key ", printable(key_), " claims an array of ", *count,
                                  " elements; the limit here is ", most));
  }

  Status read_array(std::optional<GgufValue>* value) {
    auto type = ValueType::kU8;
    uint64_t count = 0;
    ENCORE_RETURN_IF_ERROR(read_array_head(&type, &count));
    switch (type) {
      case ValueType::kU8:
      case ValueType::kBool:
        return read_elements<uint8_t, int64_t>(count, value);
      case ValueType::kI8:
        return read_elements<int8_t, int64_t>(count, value);
      case ValueType::kU16:
        return read_elements<uint16_t, int64_t>(count, value);
      case ValueType::kI16:
        return read_elements<int16_t, int64_t>(count, value);
      case ValueType::kU32:
        return read_elements<uint32_t, int64_t>(count, value);
      case ValueType::kI32:
        return read_elements<int32_t, int64_t>(count, value);
      case ValueType::kU64:
        return read_elements<uint64_t, int64_t>(count, value);
      case ValueType::kI64:
        return read_elements<int64_t, int64_t>(count, value);
      case ValueType::kF32:
        return read_elements<float, double>(count, value);
      case ValueType::kF64:
        return read_elements<double, double>(count, value);
      case ValueType::kString:
        return read_strings(count, value);
      case ValueType::kArray:
        return skip_arrays(count, 1);
    }
    return internal_error("read_array met an unchecked type");
  }

  template <typename Stored, typename Kept>
  Status read_elements(uint64_t count, std::optional<GgufValue>* value) {
    std::vector<Kept> elements;
    elements.reserve(static_cast<size_t>(std::min(count, kFirstReserve)));
    for (uint64_t i = 0; i < count; ++i) {
      Stored number{};
      ENCORE_RETURN_IF_ERROR(cursor_.read(&number, "an array's element"));
      if constexpr (std::is_same_v<Stored, uint64_t>) {
        if (number > static_cast<uint64_t>(INT64_MAX)) {
          return damaged(concat_message("key ", printable(key_), " holds ", number,
                                        "; array elements are at most ", INT64_MAX));
        }
      }
      elements.push_back(static_cast<Kept>(number));
    }
    *value = GgufValue(std::move(elements));
    return {};
  }

  Status read_strings(uint64_t count, std::optional<GgufValue>* value) {
    std::vector<std::string> elements;
    elements.reserve(static_cast<size_t>(std::min(count, kFirstReserve)));
    for (uint64_t i = 0; i < count; ++i) {
      ENCORE_RETURN_IF_ERROR(read_string(&elements.emplace_back()));
    }
    *value = GgufValue(std::move(elements));
    return {};
  }

  // No model needs arrays of arrays, so they are stepped over.
  Status skip_arrays(uint64_t count, int depth) {
    if (depth >= kMaxNesting) {
      return damaged(concat_message("key ", printable(key_), " nests arrays deeper than the limit ",
                                    kMaxNesting));
    }
    for (uint64_t i = 0; i < count; ++i) {
      auto type = ValueType::kU8;
      uint64_t inner = 0;
      ENCORE_RETURN_IF_ERROR(read_array_head(&type, &inner));
      ENCORE_RETURN_IF_ERROR(skip_elements(type, inner, depth));
    }
    return {};
  }

  Status skip_elements(ValueType type, uint64_t count, int depth) {
    if (type == ValueType::kArray) return skip_arrays(count, depth + 1);
    if (type != ValueType::kString) return cursor_.skip(count * min_bytes(type), "an array");
    for (uint64_t i = 0; i < count; ++i) {
      uint64_t bytes = 0;
      ENCORE_RETURN_IF_ERROR(cursor_.read(&bytes, "the length of a string"));
      ENCORE_RETURN_IF_ERROR(cursor_.skip(bytes, "a string"));
    }
    return {};
  }

  FileCursor& cursor_;
  const std::string& path_;
  std::string key_;  // being read, for messages
};

}  // namespace

Status read_gguf_metadata(FileCursor& cursor, const std::string& path, uint64_t key_count,
                          GgufMetadata* metadata) {
  const uint64_t most = static_cast<uint64_t>(cursor.remaining()) / kMinKeyBytes;
  if (key_count > most) {
    return data_loss(concat_message("file ", printable(path), ": it claims ", key_count,
                                    " keys, but has room for ", most, " at most"));
  }
  MetadataReader reader(cursor, path);
  for (uint64_t i = 0; i < key_count; ++i) ENCORE_RETURN_IF_ERROR(reader.read_key(metadata));
  return {};
}

}  // namespace encore
