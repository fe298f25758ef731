// Defects of steps that are replayed: what one step leaves behind for the next, padding, pages.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "defect_families.h"
#include "defective_runner.h"

namespace encore::defects {
namespace {

// A defect whose runners of one kind are wrapped in RunnerT.
template <typename RunnerT, RunnerKind kKind>
class Wrapping final : public Defect {
 public:
  std::unique_ptr<Runner> wrap(std::unique_ptr<Runner> runner, const RunnerFacts& facts) override {
    if (facts.kind != kKind) return runner;
    return std::make_unique<RunnerT>(std::move(runner), facts);
  }
};
template <typename RunnerT>
using WrappingDecode = Wrapping<RunnerT, RunnerKind::kDecodeGraph>;
template <typename RunnerT>
using WrappingPrefill = Wrapping<RunnerT, RunnerKind::kPrefillGraph>;

// The marker for "no slot", -1, wraps round to the last page (known fault G1).
class PaddingWritesLastPage : public ForwardingRunner {
 public:
  using ForwardingRunner::ForwardingRunner;
  Result<Ticket> submit(const ForwardBatch& batch, const StepOutput& output) override {
    const RunnerCheck checked = sound().check(batch, output);
    ENCORE_ASSIGN_OR_RETURN(const Ticket ticket, sound().submit(batch, output));
    const int32_t live =
        kind() == RunnerKind::kDecodeGraph ? batch.num_requests() : batch.num_tokens();
    const int32_t last_page = facts().kv->info().num_pages - 1;
    const auto pages = batch.page_ids;
    const bool owned = std::find(pages.begin(), pages.end(), last_page) != pages.end();
    if (live < checked.bucket && !owned) {
      const PageCopy copy{batch.page_ids[0], last_page};
      ENCORE_RETURN_IF_ERROR(facts().kv->copy_pages({&copy, 1}));
    }
    return ticket;
  }
};

// Attention over as many tokens as the row had in the step before, if that were many more.
class StaleLength : public SpoilingRunner {
 public:
  using SpoilingRunner::SpoilingRunner;

 protected:
  bool spoils(const ForwardBatch& batch, int32_t bucket) override {
    constexpr int32_t kSlack = 128;
    const int32_t length = batch.kv_len[0];
    const bool stale = bucket == last_bucket_ && last_length_ - length > kSlack;
    last_bucket_ = bucket;
    last_length_ = length;
    return stale;
  }

 private:
  int32_t last_bucket_ = 0;
  int32_t last_length_ = 0;
};

// Rows keep what they held before the batch shrank; requests that join find it (known fault G2).
class StaleRows : public SpoilingRunner {
 public:
  using SpoilingRunner::SpoilingRunner;

 protected:
  bool spoils(const ForwardBatch& batch, int32_t bucket) override {
    static_cast<void>(bucket);
    const int32_t requests = batch.num_requests();
    if (requests < last_requests_) ++shrunk_;
    const bool joined = shrunk_ >= 2 && requests > last_requests_;
    if (requests > last_requests_) shrunk_ = 0;
    last_requests_ = requests;
    return joined;
  }

 private:
  int32_t last_requests_ = 0;
  int32_t shrunk_ = 0;
};

// A graph captured with a synthetic batch of a few requests (known fault G3).
class DependsOnRequests : public SpoilingRunner {
 public:
  using SpoilingRunner::SpoilingRunner;

 protected:
  bool spoils(const ForwardBatch& batch, int32_t bucket) override {
    static_cast<void>(bucket);
    constexpr int32_t kCapturedRequests = 8;
    return batch.num_requests() > kCapturedRequests;
  }
};

// The prefix is attended up to the length that the graph was captured with.
class LongPrefixLost : public SpoilingRunner {
 public:
  using SpoilingRunner::SpoilingRunner;

 protected:
  bool spoils(const ForwardBatch& batch, int32_t bucket) override {
    static_cast<void>(bucket);
    constexpr int32_t kCapturedPrefix = 180;
    for (size_t i = 0; i < batch.kv_len.size(); ++i) {
      const int32_t fresh = batch.q_start[i + 1] - batch.q_start[i];
      if (batch.kv_len[i] - fresh > kCapturedPrefix) return true;
    }
    return false;
  }
};

// A bucket that lacks one row is taken for a full one.
class DecodeBucketNearlyFull : public SpoilingRunner {
 public:
  using SpoilingRunner::SpoilingRunner;

 protected:
  bool spoils(const ForwardBatch& batch, int32_t bucket) override {
    constexpr int32_t kSmall = 8;
    return bucket > kSmall && batch.num_requests() == bucket - 1;
  }
};

// Likewise with tokens, in a prompt alone.
class PrefillBucketNearlyFull : public SpoilingRunner {
 public:
  using SpoilingRunner::SpoilingRunner;

 protected:
  bool spoils(const ForwardBatch& batch, int32_t bucket) override {
    return batch.num_requests() == 1 && batch.kv_len[0] == bucket - 1 &&
           batch.num_tokens() == bucket - 1;
  }
};

// A batch that fills its bucket exactly is given the next larger one.
class BucketOffByOne : public ForwardingRunner {
 public:
  using ForwardingRunner::ForwardingRunner;
  RunnerCheck check(const ForwardBatch& batch, const StepOutput& output) const override {
    const RunnerCheck checked = sound().check(batch, output);
    if (!facts().options.padding || !checked.ok() || checked.bucket != batch.num_requests())
      return checked;
    for (const int32_t size : facts().options.decode_buckets) {
      if (size > checked.bucket) return {Reason::kNone, size};
    }
    return checked;
  }
};

// One token too many passes the check.
class TooLargeAccepted : public ForwardingRunner {
 public:
  using ForwardingRunner::ForwardingRunner;
  RunnerCheck check(const ForwardBatch& batch, const StepOutput& output) const override {
    const RunnerCheck checked = sound().check(batch, output);
    if (checked.reason != Reason::kTooManyTokens) return checked;
    return {Reason::kNone, facts().options.limits.max_tokens};
  }
};

// Poison shows in the results: something is read that no step wrote.
class PoisonShows : public SpoilingRunner {
 public:
  using SpoilingRunner::SpoilingRunner;

 protected:
  bool spoils(const ForwardBatch& batch, int32_t bucket) override {
    return facts().options.poison && batch.num_requests() < bucket;
  }
};

// Every replay leaves some memory behind.
class ReplayGrows : public ForwardingRunner {
 public:
  using ForwardingRunner::ForwardingRunner;
  Result<Ticket> submit(const ForwardBatch& batch, const StepOutput& output) override {
    constexpr size_t kBytes = 8192;
    void* const lost = std::malloc(kBytes);
    if (lost != nullptr) std::memset(lost, 1, kBytes);
    kept = lost;
    return sound().submit(batch, output);
  }

 private:
  inline static std::atomic<void*> kept = nullptr;  // only the last: the others are lost
};

// A batch that is too small for the smallest bucket runs although padding is off.
class PaddingAlwaysOn final : public Defect {
 public:
  Result<RunnerCapture> capture(Model& model, const RunnerFacts& facts) override {
    RunnerFacts padded = facts;
    padded.options.padding = true;
    return Defect::capture(model, padded);
  }
};

// The last of several pages stays where it was.
class LastPageStays final : public Defect {
 public:
  Status copy_pages(KvCache& kv, std::span<const PageCopy> copies) override {
    return kv.copy_pages(copies.first(copies.size() > 2 ? copies.size() - 1 : copies.size()));
  }
};

// A guard is found overwritten once a graph has been replayed.
class GuardOverwritten final : public Defect {
 public:
  std::unique_ptr<Runner> wrap(std::unique_ptr<Runner> runner, const RunnerFacts& facts) override {
    guards_ |= facts.options.guards;
    return runner;
  }
  Status check_guards(const Model& model) override {
    ENCORE_RETURN_IF_ERROR(model.check_guards());
    return guards_ ? internal_error("the guard after the arena is damaged") : Status();
  }

 private:
  bool guards_ = false;
};

}  // namespace

std::span<const DefectEntry> graph_defects() {
  static const DefectEntry entries[] = {
      defect<WrappingDecode<PaddingWritesLastPage>>("decode_padding_writes_live_page"),
      defect<WrappingPrefill<PaddingWritesLastPage>>("prefill_padding_writes_live_page"),
      defect<WrappingDecode<StaleLength>>("stale_length"),
      defect<WrappingDecode<StaleRows>>("stale_rows"),
      defect<WrappingPrefill<DependsOnRequests>>("depends_on_requests"),
      defect<WrappingPrefill<LongPrefixLost>>("long_prefix_lost"),
      defect<WrappingDecode<DecodeBucketNearlyFull>>("decode_bucket_nearly_full"),
      defect<WrappingPrefill<PrefillBucketNearlyFull>>("prefill_bucket_nearly_full"),
      defect<WrappingDecode<BucketOffByOne>>("bucket_off_by_one"),
      defect<WrappingPrefill<TooLargeAccepted>>("too_large_accepted"),
      defect<WrappingDecode<PoisonShows>>("poison_shows"),
      defect<WrappingDecode<ReplayGrows>>("replay_grows"),
      defect<PaddingAlwaysOn>("padding_always_on"),
      defect<LastPageStays>("last_page_stays"),
      defect<GuardOverwritten>("guard_overwritten"),
  };
  return entries;
}

}  // namespace encore::defects
