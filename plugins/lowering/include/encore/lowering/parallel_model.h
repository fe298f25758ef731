// An encore::Model over several ranks of one process: tensor parallelism on one host.
//
// Each rank is a LoweredModel with a shard of the weights, on a device and a thread of its own.
// Every call goes to all ranks and returns when all have answered; results are rank 0's, and every
// rank must have sampled the same tokens. Decisions are joint: a bucket that one rank cannot
// capture is dropped by all, and what one rank cannot allocate none has.
#pragma once

#include <cstdint>
#include <memory>

#include "encore/backend.h"
#include "encore/lowering/device.h"
#include "encore/status.h"

namespace encore::lowering {

// The devices of a model's ranks, and what lets them meet. Outlives the devices.
class RankGroup {
 public:
  virtual ~RankGroup() = default;
  virtual int32_t size() const = 0;
  // The rank's device, whose ops meet the other ranks in all_reduce and all_gather. Called once for
  // each rank, at the same time, each on the thread that will use the device from then on.
  virtual Result<std::unique_ptr<Device>> make_device(int32_t rank) = 0;
  // A rank is lost: ends collectives that wait for it, with an error where they can give one.
  // Nothing is computed any more. Any thread, any number of times.
  virtual void abort() = 0;
};

// How long a rank may keep the others waiting. A step that takes longer, or a rank that does not
// answer, loses the model: this and every later call fails with kInternal, naming rank and step.
struct ParallelLimits {
  int64_t step_us = 5'000'000;
  // Loading, allocating, capturing: what the slowest rank may take longer than the first.
  int64_t setup_us = 60'000'000;
};

class ParallelModel {
 public:
  // `spec` and `weights` are the whole model's; the weights are borrowed for the model's life.
  // Errors: kInvalidArgument with the numbers if the model cannot be divided; those of any rank's
  // device and weights, naming the rank; kCancelled if options.progress says so.
  static Result<std::unique_ptr<Model>> load(std::unique_ptr<RankGroup> group,
                                             const ModelSpec& spec, const WeightSource& weights,
                                             const LoadOptions& options,
                                             const ParallelLimits& limits = {});
};

}  // namespace encore::lowering
