// A view of a model's weights that shows one rank's part of each: see shard.h.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "encore/lowering/shard.h"
#include "encore/weights.h"

namespace encore::lowering {

// Borrows the source. Names are the source's; shapes are those of the rank's spec, and a head tied
// to the embedding appears as `head.weight` where it is divided. Zeros are the head's rows past the
// vocabulary, and, on every rank but the first, the biases of o and down, which enter the sum over
// ranks once.
//
// Row slices without zeros can be mapped where the source can. Column slices are read row by row:
// from the mapping, or through a buffer of many rows.
class ShardedWeights final : public WeightSource {
 public:
  // `spec` is the whole model's. Errors: kInvalidArgument with the numbers if the model, or a
  // quantised weight, cannot be divided.
  static Result<std::unique_ptr<ShardedWeights>> create(const WeightSource& source,
                                                        const ModelSpec& spec, const Shard& shard);

  std::span<const WeightInfo> weights() const override { return infos_; }
  Status read(size_t index, int64_t offset, std::span<std::byte> destination) const override;
  const std::byte* map(size_t index) const override;
  void release(size_t index) const override { source_.release(slices_[index].source); }

 private:
  // Which part of a tensor of the source. Offsets are in bytes.
  struct Slice {
    size_t source = 0;
    int64_t offset = 0;       // of the part, in the tensor or in each of its rows
    bool by_columns = false;  // a part of each row
    int64_t live_bytes = 0;   // of the part; zeros follow
    int64_t row_bytes = 0;    // of the part's row, if by columns
    int64_t source_row_bytes = 0;
  };

  ShardedWeights(const WeightSource& source, const Shard& shard) : source_(source), shard_(shard) {}
  Status add(size_t index, const ModelSpec& spec, const ModelSpec& part);
  // Elements [begin, begin + count) of the first or second dimension. Rows that the tensor lacks
  // are zeros.
  void add_rows(size_t index, std::string name, int64_t begin, int64_t count);
  Status add_columns(size_t index, int64_t begin, int64_t count);
  // As large as the tensor; without its values if `zeros`.
  void add_whole(size_t index, bool zeros);
  Status read_columns(const Slice& slice, int64_t offset, std::span<std::byte> destination) const;

  const WeightSource& source_;
  Shard shard_;
  std::vector<WeightInfo> infos_;
  std::vector<Slice> slices_;  // parallel to infos_
};

}  // namespace encore::lowering
