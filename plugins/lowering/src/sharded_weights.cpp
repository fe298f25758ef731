#include "encore/lowering/sharded_weights.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "encore/dtype.h"

namespace encore::lowering {
namespace {

constexpr int64_t kBufferBytes = int64_t{1} << 20;

// "layers.3.gate.bias" -> {"gate", "bias"}; "embed.weight" -> {"embed", "weight"}.
std::pair<std::string_view, std::string_view> split_name(std::string_view name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return {name, ""};
  const std::string_view stem = name.substr(0, dot);
  const size_t before = stem.rfind('.');
  return {before == std::string_view::npos ? stem : stem.substr(before + 1), name.substr(dot + 1)};
}

}  // namespace

Result<std::unique_ptr<ShardedWeights>> ShardedWeights::create(const WeightSource& source,
                                                               const ModelSpec& spec,
                                                               const Shard& shard) {
  ENCORE_ASSIGN_OR_RETURN(const ModelSpec part, shard_spec(spec, shard));
  std::unique_ptr<ShardedWeights> view(new ShardedWeights(source, shard));
  for (size_t i = 0; i < source.weights().size(); ++i) {
    ENCORE_RETURN_IF_ERROR(view->add(i, spec, part));
  }
  return view;
}

Status ShardedWeights::add(size_t index, const ModelSpec& spec, const ModelSpec& part) {
  const WeightInfo& whole = source_.weights()[index];
  const auto [leaf, kind] = split_name(whole.name);
  if (leaf == "q") {
    add_rows(index, whole.name, shard_.rank * part.q_size(), part.q_size());
  } else if (leaf == "k" || leaf == "v") {
    add_rows(index, whole.name, first_kv_head(spec, shard_) * spec.head_dim, part.kv_size());
  } else if (leaf == "gate" || leaf == "up") {
    add_rows(index, whole.name, shard_.rank * part.intermediate_size, part.intermediate_size);
  } else if (leaf == "o" || leaf == "down") {
    if (kind == "bias") {
      add_whole(index, shard_.rank != 0);
    } else {
      const int64_t columns = leaf == "o" ? part.q_size() : part.intermediate_size;
      return add_columns(index, shard_.rank * columns, columns);
    }
  } else if (leaf == "head") {
    const int64_t rows = head_rows(spec, shard_);
    add_rows(index, whole.name, shard_.rank * rows, rows);
  } else {
    add_whole(index, false);
    if (leaf == "embed" && spec.tied_embeddings && !part.tied_embeddings) {
      const int64_t rows = head_rows(spec, shard_);
      add_rows(index, "head.weight", shard_.rank * rows, rows);
    }
  }
  return {};
}

void ShardedWeights::add_rows(size_t index, std::string name, int64_t begin, int64_t count) {
  WeightInfo info = source_.weights()[index];
  const int64_t row_bytes = info.bytes / info.shape[0];
  const int64_t live_rows = std::clamp<int64_t>(info.shape[0] - begin, 0, count);
  info.name = std::move(name);
  info.shape[0] = count;
  info.bytes = count * row_bytes;
  infos_.push_back(std::move(info));
  slices_.push_back(
      {.source = index, .offset = begin * row_bytes, .live_bytes = live_rows * row_bytes});
}

Status ShardedWeights::add_columns(size_t index, int64_t begin, int64_t count) {
  WeightInfo info = source_.weights()[index];
  const int64_t source_row_bytes = row_bytes(info.dtype, info.shape[1]);
  const int64_t part_row_bytes = row_bytes(info.dtype, count);
  if (part_row_bytes < 0) {
    return invalid_argument(
        "weight '" + info.name + "' has " + std::to_string(info.shape[1]) + " columns of " +
        std::string(dtype_name(info.dtype)) + ", stored in blocks of " +
        std::to_string(dtype_info(info.dtype).block_elements) + "; " +
        std::to_string(shard_.num_ranks) + " ranks would cut through a block (" +
        std::to_string(count) + " columns each); choose fewer ranks");
  }
  const int64_t offset = begin * source_row_bytes / info.shape[1];
  info.shape[1] = count;
  info.bytes = info.shape[0] * part_row_bytes;
  infos_.push_back(std::move(info));
  slices_.push_back({.source = index,
                     .offset = offset,
                     .by_columns = true,
                     .live_bytes = infos_.back().bytes,
                     .row_bytes = part_row_bytes,
                     .source_row_bytes = source_row_bytes});
  return {};
}

void ShardedWeights::add_whole(size_t index, bool zeros) {
  infos_.push_back(source_.weights()[index]);
  slices_.push_back({.source = index, .live_bytes = zeros ? 0 : infos_.back().bytes});
}

const std::byte* ShardedWeights::map(size_t index) const {
  const Slice& slice = slices_[index];
  if (slice.by_columns || slice.live_bytes < infos_[index].bytes) return nullptr;
  const std::byte* whole = source_.map(slice.source);
  return whole == nullptr ? nullptr : whole + slice.offset;
}

Status ShardedWeights::read(size_t index, int64_t offset, std::span<std::byte> destination) const {
  const Slice& slice = slices_[index];
  const auto size = static_cast<int64_t>(destination.size());
  if (offset < 0 || size > infos_[index].bytes - offset) {
    return invalid_argument("bytes " + std::to_string(offset) + " to " +
                            std::to_string(offset + size) + " of weight '" + infos_[index].name +
                            "' were asked for; it has " + std::to_string(infos_[index].bytes));
  }
  const auto live = static_cast<size_t>(std::clamp<int64_t>(slice.live_bytes - offset, 0, size));
  std::fill(destination.begin() + static_cast<std::ptrdiff_t>(live), destination.end(),
            std::byte{0});
  if (live == 0) return {};
  if (slice.by_columns) return read_columns(slice, offset, destination);
  return source_.read(slice.source, slice.offset + offset, destination.first(live));
}

Status ShardedWeights::read_columns(const Slice& slice, int64_t offset,
                                    std::span<std::byte> destination) const {
  const std::byte* mapped = source_.map(slice.source);
  std::vector<std::byte> buffer;  // whole rows of the source, if it cannot be mapped
  const int64_t buffer_rows = std::max<int64_t>(1, kBufferBytes / slice.source_row_bytes);
  int64_t buffer_begin = 0;
  int64_t buffer_end = 0;
  int64_t row = offset / slice.row_bytes;
  int64_t skip = offset % slice.row_bytes;  // of the first row
  const int64_t last_row =
      (offset + static_cast<int64_t>(destination.size()) - 1) / slice.row_bytes;
  for (; !destination.empty(); ++row, skip = 0) {
    if (mapped == nullptr && row >= buffer_end) {
      buffer_begin = row;
      buffer_end = std::min(row + buffer_rows, last_row + 1);
      buffer.resize(static_cast<size_t>((buffer_end - row) * slice.source_row_bytes));
      ENCORE_RETURN_IF_ERROR(source_.read(slice.source, row * slice.source_row_bytes, buffer));
    }
    const std::byte* source_row =
        mapped != nullptr ? mapped + row * slice.source_row_bytes
                          : buffer.data() + (row - buffer_begin) * slice.source_row_bytes;
    const size_t count = std::min(destination.size(), static_cast<size_t>(slice.row_bytes - skip));
    std::memcpy(destination.data(), source_row + slice.offset + skip, count);
    destination = destination.subspan(count);
  }
  return {};
}

}  // namespace encore::lowering
