#include "model/gguf.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>
#include <vector>

#include "model/file_cursor.h"
#include "model/gguf_metadata.h"
#include "model/printable.h"

namespace encore {
namespace {

constexpr uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr uint32_t kMaxDimensions = 4;
constexpr uint64_t kMaxNameBytes = 1024;
constexpr uint64_t kMinTensorEntryBytes = 8 + 4 + 8 + 4 + 8;
constexpr uint64_t kDefaultAlignment = 32;
constexpr uint64_t kMaxAlignment = 1 << 20;

struct TensorType {
  uint32_t id;  // in the file
  const char* name;
  DType dtype;
};

constexpr std::array<TensorType, 32> kTensorTypes = {{
    {0, "f32", DType::kF32},          {1, "f16", DType::kF16},
    {2, "q4_0", DType::kQ4_0},        {3, "q4_1", DType::kQ4_1},
    {6, "q5_0", DType::kInvalid},     {7, "q5_1", DType::kInvalid},
    {8, "q8_0", DType::kQ8_0},        {9, "q8_1", DType::kInvalid},
    {10, "q2_k", DType::kInvalid},    {11, "q3_k", DType::kInvalid},
    {12, "q4_k", DType::kQ4_K},       {13, "q5_k", DType::kQ5_K},
    {14, "q6_k", DType::kQ6_K},       {15, "q8_k", DType::kInvalid},
    {16, "iq2_xxs", DType::kInvalid}, {17, "iq2_xs", DType::kInvalid},
    {18, "iq3_xxs", DType::kInvalid}, {19, "iq1_s", DType::kInvalid},
    {20, "iq4_nl", DType::kInvalid},  {21, "iq3_s", DType::kInvalid},
    {22, "iq2_s", DType::kInvalid},   {23, "iq4_xs", DType::kInvalid},
    {24, "i8", DType::kInvalid},      {25, "i16", DType::kInvalid},
    {26, "i32", DType::kInvalid},     {27, "i64", DType::kInvalid},
    {28, "f64", DType::kInvalid},     {29, "iq1_m", DType::kInvalid},
    {30, "bf16", DType::kBF16},       {34, "tq1_0", DType::kInvalid},
    {35, "tq2_0", DType::kInvalid},   {39, "mxfp4", DType::kInvalid},
}};

std::string supported_types() {
  std::string text;
  for (const TensorType& type : kTensorTypes) {
    if (type.dtype == DType::kInvalid) continue;
    if (!text.empty()) text += ", ";
    text += type.name;
  }
  return text;
}

class HeaderReader {
 public:
  explicit HeaderReader(const MappedFile& file) : file_(file), cursor_(file) {}

  Result<GgufHeader> read() {
    uint64_t tensor_count = 0;
    uint64_t key_count = 0;
    ENCORE_RETURN_IF_ERROR(read_preamble(&tensor_count, &key_count));
    ENCORE_RETURN_IF_ERROR(read_gguf_metadata(cursor_, file_.path(), key_count, &header_.metadata));
    ENCORE_RETURN_IF_ERROR(read_alignment());
    for (uint64_t i = 0; i < tensor_count; ++i) ENCORE_RETURN_IF_ERROR(read_tensor());
    ENCORE_RETURN_IF_ERROR(place_tensors());
    return std::move(header_);
  }

 private:
  Status damaged(const std::string& text) const {
    return data_loss(concat_message("file ", printable(file_.path()), ": ", text));
  }
  Status damaged_tensor(std::string_view name, const std::string& text) const {
    return damaged(concat_message("tensor ", printable(name), " ", text));
  }

  Status read_preamble(uint64_t* tensor_count, uint64_t* key_count) {
    uint32_t magic = 0;
    uint32_t version = 0;
    ENCORE_RETURN_IF_ERROR(cursor_.read(&magic, "the magic number"));
    if (magic != kMagic) return damaged("it does not start with 'GGUF'; this is no GGUF file");
    ENCORE_RETURN_IF_ERROR(cursor_.read(&version, "the version"));
    if (version != 0 && (version & 0xFFFF) == 0) {
      return unimplemented(concat_message("file ", printable(file_.path()),
                                          " is big endian; convert it to little endian"));
    }
    if (version != 2 && version != 3) {
      return unimplemented(concat_message("file ", printable(file_.path()), " has GGUF version ",
                                          version, "; supported: 2, 3"));
    }
    ENCORE_RETURN_IF_ERROR(cursor_.read(tensor_count, "the number of tensors"));
    ENCORE_RETURN_IF_ERROR(cursor_.read(key_count, "the number of keys"));
    const uint64_t most = static_cast<uint64_t>(cursor_.remaining()) / kMinTensorEntryBytes;
    if (*tensor_count > most) {
      return damaged(concat_message("it claims ", *tensor_count, " tensors, but its ", file_.size(),
                                    " bytes have room for ", most, " at most"));
    }
    return {};
  }

  Status read_alignment() {
    const auto found = header_.metadata.find("general.alignment");
    if (found == header_.metadata.end()) return {};
    const auto* value = std::get_if<uint64_t>(&found->second);
    if (value == nullptr || !std::has_single_bit(*value) || *value > kMaxAlignment) {
      return damaged(concat_message("general.alignment must be a power of two up to ",
                                    kMaxAlignment, value == nullptr ? "" : ", found ",
                                    value == nullptr ? "" : std::to_string(*value)));
    }
    alignment_ = *value;
    return {};
  }

  Status read_tensor() {
    uint64_t name_bytes = 0;
    std::string name;
    ENCORE_RETURN_IF_ERROR(cursor_.read(&name_bytes, "the length of a tensor's name"));
    if (name_bytes > kMaxNameBytes) {
      return damaged(concat_message("a tensor's name is ", name_bytes, " bytes long; the limit is ",
                                    kMaxNameBytes));
    }
    ENCORE_RETURN_IF_ERROR(cursor_.read_text(name_bytes, &name, "a tensor's name"));
    StoredTensor tensor;
    ENCORE_RETURN_IF_ERROR(read_shape(name, &tensor));
    ENCORE_RETURN_IF_ERROR(read_type(name, &tensor));
    ENCORE_RETURN_IF_ERROR(size_tensor(name, &tensor));
    uint64_t offset = 0;
    ENCORE_RETURN_IF_ERROR(cursor_.read(&offset, "a tensor's offset"));
    if (offset % alignment_ != 0) {
      return damaged_tensor(name, concat_message("has offset ", offset,
                                                 ", not a multiple of the alignment ", alignment_));
    }
    if (offset > static_cast<uint64_t>(file_.size())) {
      return damaged_tensor(name, concat_message("has offset ", offset, ", but the file has ",
                                                 file_.size(), " bytes"));
    }
    tensor.offset = static_cast<int64_t>(offset);
    if (!header_.tensors.emplace(name, std::move(tensor)).second) {
      return damaged_tensor(name, "is listed twice");
    }
    return {};
  }

  Status read_shape(std::string_view name, StoredTensor* tensor) {
    uint32_t dimensions = 0;
    ENCORE_RETURN_IF_ERROR(cursor_.read(&dimensions, "a tensor's number of dimensions"));
    if (dimensions == 0 || dimensions > kMaxDimensions) {
      return damaged_tensor(
          name, concat_message("has ", dimensions, " dimensions; expected 1 to ", kMaxDimensions));
    }
    tensor->shape.resize(dimensions);
    for (uint32_t i = 0; i < dimensions; ++i) {
      uint64_t dimension = 0;
      ENCORE_RETURN_IF_ERROR(cursor_.read(&dimension, "a tensor's dimension"));
      if (dimension == 0 || dimension > static_cast<uint64_t>(INT64_MAX)) {
        return damaged_tensor(name, concat_message("has dimension ", i, " of size ", dimension,
                                                   "; expected 1 to ", INT64_MAX));
      }
      tensor->shape[dimensions - 1 - i] = static_cast<int64_t>(dimension);
    }
    return {};
  }

  Status read_type(std::string_view name, StoredTensor* tensor) {
    uint32_t id = 0;
    ENCORE_RETURN_IF_ERROR(cursor_.read(&id, "a tensor's type"));
    const auto* type =
        std::find_if(kTensorTypes.begin(), kTensorTypes.end(),
                     [id](const TensorType& candidate) { return candidate.id == id; });
    if (type == kTensorTypes.end()) {
      tensor->type_name = concat_message("number ", id);
    } else {
      tensor->type_name = type->name;
      tensor->dtype = type->dtype;
    }
    if (tensor->dtype != DType::kInvalid) return {};
    return unimplemented(concat_message("tensor ", printable(name), " in file ",
                                        printable(file_.path()), " has type ", tensor->type_name,
                                        "; supported: ", supported_types()));
  }

  // Sets `bytes`, which is at most the file's size.
  Status size_tensor(std::string_view name, StoredTensor* tensor) {
    const int64_t columns = tensor->shape.back();
    const int64_t block = dtype_info(tensor->dtype).block_elements;
    if (columns % block != 0) {
      return damaged_tensor(name,
                            concat_message("of type ", tensor->type_name, " has rows of ", columns,
                                           " elements; expected a multiple of ", block));
    }
    // Shapes that leave the file are refused below, so saturating at its size + 1 is enough.
    int64_t bytes = row_bytes(tensor->dtype, columns);
    if (bytes < 0) bytes = file_.size() + 1;
    for (size_t i = 0; i + 1 < tensor->shape.size() && bytes <= file_.size(); ++i) {
      bytes = tensor->shape[i] > file_.size() / bytes ? file_.size() + 1 : bytes * tensor->shape[i];
    }
    if (bytes > file_.size()) {
      return damaged_tensor(
          name,
          concat_message("of shape ", printable_shape(tensor->shape), " and type ",
                         tensor->type_name, " is larger than the file's ", file_.size(), " bytes"));
    }
    tensor->bytes = bytes;
    return {};
  }

  // Turns offsets from the data section into offsets from the file's start, and checks that every
  // tensor lies in the file and on no other.
  Status place_tensors() {
    if (header_.tensors.empty()) return {};
    const auto mask = static_cast<int64_t>(alignment_) - 1;
    const int64_t data_start = (cursor_.position() + mask) & ~mask;
    const int64_t data_bytes = std::max<int64_t>(0, file_.size() - data_start);
    std::vector<std::pair<int64_t, const TensorTable::value_type*>> order;
    order.reserve(header_.tensors.size());
    for (auto& entry : header_.tensors) {
      StoredTensor& tensor = entry.second;
      if (tensor.offset > data_bytes || tensor.bytes > data_bytes - tensor.offset) {
        return damaged_tensor(entry.first,
                              concat_message("needs bytes ", tensor.offset, " to ",
                                             tensor.offset + tensor.bytes, " of a data section of ",
                                             data_bytes, " bytes; the file is cut short or lies"));
      }
      tensor.offset += data_start;
      order.emplace_back(tensor.offset, &entry);
    }
    std::sort(order.begin(), order.end());
    for (size_t i = 1; i < order.size(); ++i) {
      const auto& before = *order[i - 1].second;
      if (order[i].first - before.second.offset < before.second.bytes) {
        return damaged_tensor(order[i].second->first,
                              concat_message("overlaps tensor ", printable(before.first)));
      }
    }
    return {};
  }

  const MappedFile& file_;
  FileCursor cursor_;
  GgufHeader header_;
  uint64_t alignment_ = kDefaultAlignment;
};

}  // namespace

Result<GgufHeader> read_gguf_header(const MappedFile& file) { return HeaderReader(file).read(); }

}  // namespace encore
