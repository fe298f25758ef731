#include "model/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>

#include "model/json_reader.h"
#include "model/printable.h"

namespace encore {
namespace {

using Json = nlohmann::json;

constexpr int64_t kPrefixBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 32 << 20;
constexpr size_t kMaxDimensions = 8;

struct ElementType {
  std::string_view name;
  int64_t bytes;
  DType dtype;
};

constexpr std::array<ElementType, 15> kElementTypes = {{
    {"F32", 4, DType::kF32},
    {"F16", 2, DType::kF16},
    {"BF16", 2, DType::kBF16},
    {"BOOL", 1, DType::kInvalid},
    {"U8", 1, DType::kInvalid},
    {"I8", 1, DType::kInvalid},
    {"F8_E4M3", 1, DType::kInvalid},
    {"F8_E5M2", 1, DType::kInvalid},
    {"U16", 2, DType::kInvalid},
    {"I16", 2, DType::kInvalid},
    {"U32", 4, DType::kInvalid},
    {"I32", 4, DType::kInvalid},
    {"U64", 8, DType::kInvalid},
    {"I64", 8, DType::kInvalid},
    {"F64", 8, DType::kInvalid},
}};

class HeaderReader {
 public:
  explicit HeaderReader(const MappedFile& file) : file_(file) {}

  Result<TensorTable> read() {
    ENCORE_ASSIGN_OR_RETURN(const std::string text, read_text());
    ENCORE_ASSIGN_OR_RETURN(
        const Json header,
        parse_json_object(text, concat_message("the header of file ", printable(file_.path()))));
    TensorTable tensors;
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__") continue;
      StoredTensor tensor;
      ENCORE_RETURN_IF_ERROR(read_tensor(name, entry, &tensor));
      tensors.emplace(name, std::move(tensor));
    }
    ENCORE_RETURN_IF_ERROR(check_cover(tensors));
    return tensors;
  }

 private:
  Status damaged(const std::string& text) const {
    return data_loss(concat_message("file ", printable(file_.path()), ": ", text));
  }
  Status damaged_tensor(std::string_view name, const std::string& text) const {
    return damaged(concat_message("tensor ", printable(name), " ", text));
  }

  // The JSON text after the length; sets where the data starts.
  Result<std::string> read_text() {
    if (file_.size() < kPrefixBytes) {
      return damaged(concat_message("it has ", file_.size(),
                                    " bytes; a safetensors file has at least ", kPrefixBytes));
    }
    uint64_t length = 0;
    std::array<std::byte, kPrefixBytes> prefix;
    ENCORE_RETURN_IF_ERROR(file_.read(0, prefix));
    std::memcpy(&length, prefix.data(), prefix.size());
    const uint64_t room = static_cast<uint64_t>(file_.size() - kPrefixBytes);
    if (length > room || length > kMaxHeaderBytes) {
      return damaged(concat_message("its header claims ", length, " bytes; the file has room for ",
                                    room, " and the limit is ", kMaxHeaderBytes));
    }
    std::string text(static_cast<size_t>(length), '\0');
    ENCORE_RETURN_IF_ERROR(file_.read(kPrefixBytes, std::as_writable_bytes(std::span(text))));
    data_start_ = kPrefixBytes + static_cast<int64_t>(length);
    return text;
  }

  Status read_tensor(const std::string& name, const Json& entry, StoredTensor* tensor) const {
    if (!entry.is_object()) return damaged_tensor(name, "is not described by an object");
    const auto dtype = entry.find("dtype");
    if (dtype == entry.end() || !dtype->is_string()) {
      return damaged_tensor(name, "has no dtype");
    }
    tensor->type_name = dtype->get_ref<const std::string&>();
    const auto* type = std::find_if(
        kElementTypes.begin(), kElementTypes.end(),
        [&](const ElementType& candidate) { return candidate.name == tensor->type_name; });
    if (type == kElementTypes.end()) {
      return unimplemented(concat_message(
          "tensor ", printable(name), " in file ", printable(file_.path()), " has type ",
          printable(tensor->type_name), "; supported: F32, F16, BF16"));
    }
    tensor->dtype = type->dtype;
    ENCORE_RETURN_IF_ERROR(read_range(name, entry, tensor));
    return read_shape(name, entry, type->bytes, tensor);
  }

  Status read_range(const std::string& name, const Json& entry, StoredTensor* tensor) const {
    const auto offsets = entry.find("data_offsets");
    if (offsets == entry.end() || !offsets->is_array() || offsets->size() != 2 ||
        !(*offsets)[0].is_number_unsigned() || !(*offsets)[1].is_number_unsigned()) {
      return damaged_tensor(name, "must have two data_offsets, integers from 0");
    }
    const uint64_t begin = (*offsets)[0].get<uint64_t>();
    const uint64_t end = (*offsets)[1].get<uint64_t>();
    const auto data_bytes = static_cast<uint64_t>(file_.size() - data_start_);
    if (begin > end || end > data_bytes) {
      return damaged_tensor(
          name, concat_message("lies at bytes ", begin, " to ", end, " of a data section of ",
                               data_bytes, " bytes; the file is cut short or lies"));
    }
    tensor->offset = data_start_ + static_cast<int64_t>(begin);
    tensor->bytes = static_cast<int64_t>(end - begin);
    return {};
  }

  Status read_shape(const std::string& name, const Json& entry, int64_t element_bytes,
                    StoredTensor* tensor) const {
    const auto shape = entry.find("shape");
    if (shape == entry.end() || !shape->is_array() || shape->size() > kMaxDimensions) {
      return damaged_tensor(
          name, concat_message("must have a shape of at most ", kMaxDimensions, " dimensions"));
    }
    int64_t bytes = element_bytes;
    for (const Json& dimension : *shape) {
      if (!dimension.is_number_unsigned() || dimension.get<uint64_t>() == 0) {
        return damaged_tensor(name, "has a dimension that is not an integer above 0");
      }
      const uint64_t size = dimension.get<uint64_t>();
      if (size > static_cast<uint64_t>(tensor->bytes / bytes)) {
        return damaged_tensor(name, concat_message("has type ", tensor->type_name,
                                                   " and a shape that needs more than its ",
                                                   tensor->bytes, " bytes"));
      }
      bytes *= static_cast<int64_t>(size);
      tensor->shape.push_back(static_cast<int64_t>(size));
    }
    if (bytes == tensor->bytes) return {};
    return damaged_tensor(name, concat_message("has type ", tensor->type_name, " and shape ",
                                               printable_shape(tensor->shape), ", which is ", bytes,
                                               " bytes; its data_offsets span ", tensor->bytes));
  }

  Status check_cover(const TensorTable& tensors) const {
    std::vector<std::pair<int64_t, const TensorTable::value_type*>> order;
    order.reserve(tensors.size());
    for (const auto& entry : tensors) order.emplace_back(entry.second.offset, &entry);
    std::sort(order.begin(), order.end());
    int64_t end = data_start_;
    for (const auto& [offset, entry] : order) {
      if (offset != end) {
        return damaged_tensor(
            entry->first,
            concat_message(offset < end ? "overlaps another: it" : "", " starts at data byte ",
                           offset - data_start_, "; expected ", end - data_start_));
      }
      end = offset + entry->second.bytes;
    }
    if (end == file_.size()) return {};
    return damaged(concat_message("its tensors end at byte ", end, ", the file at ", file_.size()));
  }

  const MappedFile& file_;
  int64_t data_start_ = 0;
};

}  // namespace

Result<TensorTable> read_safetensors_header(const MappedFile& file) {
  return HeaderReader(file).read();
}

}  // namespace encore
