// The static inputs of a step: one packed buffer, the same on host and device.
//
// Where each input lies depends on the padded sizes alone, so that a small step is a small copy and
// a graph captured for a bucket always finds its inputs at the same place.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "encore/backend.h"
#include "encore/forward_batch.h"
#include "encore/lowering/ops.h"
#include "encore/status.h"

namespace encore::lowering {

// What the rows of a static input hold past the live ones, up to the bucket. No op reads them when
// it honours the live counts; an op that runs them all the same finds nothing harmful.
enum class Padding {
  kZero,        // all bytes zero: token 0, position 0, no KV, greedy
  kRepeatLast,  // the last live entry again: an empty range
  kNoRequest,   // -1: the row belongs to no request
  kSinkPage,    // the reserved page that no request owns
  kNone,        // a scalar or a list whose length is given elsewhere: has no padding rows
};

// One static input of a layout.
struct StaticInput {
  std::string_view name;
  int64_t offset = 0;  // bytes from the start of the buffer
  int64_t element_bytes = 0;
  int64_t capacity = 0;  // elements
  Padding padding = Padding::kNone;
};

// Lays out, validates and packs. Immutable; pack() allocates nothing.
class StepStaging {
 public:
  // `num_pages` pages of `page_size` tokens exist; page `num_pages` is the sink.
  StepStaging(const ModelSpec& spec, const RunnerLimits& limits, const KvInfo& kv);

  // Bytes of the largest layout: that of the limits.
  int64_t bytes() const { return bytes_; }

  // Where the inputs of a step padded to `tokens` tokens and `requests` requests lie.
  // REQUIRES: both are within the limits.
  static constexpr size_t kNumInputs = 14;
  std::array<StaticInput, kNumInputs> layout(int32_t tokens, int32_t requests) const;
  // Their addresses in a device buffer at `base`.
  StepInputs inputs_at(const std::byte* base, int32_t tokens, int32_t requests,
                       bool decode_only) const;

  // Why the static buffers cannot hold the batch, or kNone.
  Reason fits(const ForwardBatch& batch, const StepOutput& output) const;

  // Errors: kInvalidArgument naming the field, row, value and limit if the batch contradicts itself
  // or names pages, rows or tokens that do not exist.
  Status validate(const ForwardBatch& batch, const StepOutput& output) const;

  // Writes the batch into `host`, a buffer of bytes() bytes, padded to the given sizes. Returns how
  // many bytes from the start are worth copying to the device.
  // REQUIRES: fits() and validate() had nothing to say; padded sizes are within the limits and not
  // below the batch's own (requests: nor its logits rows).
  int64_t pack(const ForwardBatch& batch, int32_t padded_tokens, int32_t padded_requests,
               std::byte* host) const;

  // Fills a whole host buffer with a hostile value: what pack() does not write afterwards must not
  // matter.
  void poison(std::byte* host) const;

 private:
  enum Input : size_t {
    kCounts,
    kTokenIds,
    kPositions,
    kTokenRequest,
    kQStart,
    kKvLen,
    kPageStart,
    kLogitRows,
    kSampling,
    kBiasStart,
    kHistoryStart,
    kPageIds,
    kBiases,
    kHistory,
  };
  static_assert(kHistory + 1 == kNumInputs);
  Status validate_requests(const ForwardBatch& batch) const;
  Status validate_tokens(const ForwardBatch& batch) const;
  Status validate_rows(const ForwardBatch& batch, const StepOutput& output) const;
  Status validate_output(const StepOutput& output, size_t rows) const;
  template <typename T>
  void put(const StaticInput& input, std::span<const T> live, int64_t padded,
           std::byte* host) const;

  RunnerLimits limits_;
  KvInfo kv_;
  int64_t vocab_size_;
  int32_t max_pages_per_request_;
  int64_t bytes_;
};

}  // namespace encore::lowering
