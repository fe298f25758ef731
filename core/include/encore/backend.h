// What a device backend offers: devices, models, KV caches and the three kinds of runner.
//
// A plugin author derives from these classes and hands the Backend to the adapter in plugins/sdk;
// the host sees the same classes, implemented by plugins/loader over the C ABI. Lifetimes nest:
// Runner within KvCache and Model, both within Backend.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "encore/capture_report.h"
#include "encore/dtype.h"
#include "encore/model_spec.h"
#include "encore/reason.h"
#include "encore/runner.h"
#include "encore/status.h"
#include "encore/weights.h"

namespace encore {

struct BackendIdentity {
  std::string name;  // "cpu", or "vendor.name" for third parties
  std::string vendor;
  std::string version;
  std::string build_id;  // tells two builds of one version apart
};

// Whether the backend can be used on this machine. `reason` says why not, for people.
struct ProbeResult {
  bool usable = false;
  std::string reason;
};

// The numbers are part of the C ABI.
enum class OptionType : int32_t { kInt = 0, kFloat = 1, kBool = 2, kString = 3, kEnum = 4 };

// One key of `backend.options`. The host checks values against it before init().
struct OptionSchema {
  std::string key;
  OptionType type = OptionType::kString;
  std::string default_value;
  double minimum = 0.0;  // kInt and kFloat; no limits if minimum > maximum
  double maximum = -1.0;
  std::vector<std::string> choices;  // kEnum; for kInt: words also accepted, such as "auto"
  std::string help;                  // one sentence
};

// Checked and completed with defaults: every key of the schema, once.
using OptionValues = std::vector<std::pair<std::string, std::string>>;

// Capability bits of a device. The numbers are part of the C ABI.
inline constexpr uint64_t kCapabilityEager = 1U << 0;
inline constexpr uint64_t kCapabilityPrefillFull = 1U << 1;
inline constexpr uint64_t kCapabilityPrefillBreakable = 1U << 2;
inline constexpr uint64_t kCapabilityDecodeGraph = 1U << 3;
inline constexpr uint64_t kCapabilityCollectives = 1U << 4;
// Steps run on the device by themselves, so a step may be submitted before the one before it has
// been waited for, and pays.
inline constexpr uint64_t kCapabilityAsync = 1U << 5;
// The device has memory of its own: what device_memory() says is used there is mostly this
// process's, and the KV cache is sized from what remains.
inline constexpr uint64_t kCapabilityDeviceMemory = 1U << 6;

struct DeviceInfo {
  std::string id;            // stable across runs, for example "cpu:0"
  std::string name;          // for people
  std::string architecture;  // for example "x86-64 avx512-vnni" or "sm_90a"
  uint64_t capabilities = 0;
};

struct DeviceMemory {
  int64_t total_bytes = 0;
  int64_t free_bytes = 0;
};

// What the device can do at best, measured now. Zero where unknown.
struct DeviceLimits {
  double read_bytes_per_s = 0.0;
  double matmul_ops_per_s = 0.0;  // of the type the model's linears use; a multiply-add is two
};

struct KvOptions {
  int32_t num_pages = 0;
  int32_t page_size = 16;         // tokens
  DType dtype = DType::kInvalid;  // kInvalid: the backend chooses
  bool guards = false;            // canary bytes at both ends, checked by Model::check_guards
};

struct KvInfo {
  int32_t num_pages = 0;
  int32_t page_size = 0;
  int64_t page_bytes = 0;         // one page over all layers
  int64_t total_bytes = 0;        // reserved pages included
  DType dtype = DType::kInvalid;  // kInvalid: the backend does not say
};

struct PageCopy {
  int32_t source = 0;
  int32_t destination = 0;
};

// Keys and values of all layers, in pages. Ids run from 0 to num_pages-1; what padding rows write
// goes to a page outside that range. Same threads as a runner.
class KvCache {
 public:
  virtual ~KvCache() = default;
  virtual KvInfo info() const = 0;
  virtual Status copy_pages(std::span<const PageCopy> copies) = 0;
  // The page's bytes, all layers, in the backend's own layout: for tests and for moving pages.
  // REQUIRES: destination.size() == page_bytes.
  virtual Status read_page(int32_t page, std::span<std::byte> destination) const = 0;
};

// The numbers are part of the C ABI.
enum class PrefillMode : int32_t {
  kOff = 0,        // prefill runs eagerly
  kFull = 1,       // embed to sampled tokens in one launch
  kBreakable = 2,  // segments of the layer stack, with attention and observers eager between them
};

// What every runner of a model must be able to hold: the sizes of its static buffers.
struct RunnerLimits {
  int32_t max_requests = 1;
  int32_t max_tokens = 1;    // new tokens a step
  int32_t max_context = 1;   // tokens of one request
  int32_t max_logprobs = 0;  // most probable tokens a row may ask for
  int32_t max_history = 0;   // penalty entries a step
  int32_t max_biases = 0;    // logit biases a step
};

struct CaptureOptions {
  RunnerLimits limits;
  PrefillMode prefill_mode = PrefillMode::kFull;
  std::vector<int32_t> prefill_buckets;  // empty: default_prefill_buckets(max_tokens)
  std::vector<int32_t> decode_buckets;   // empty: default_decode_buckets(max_requests)
  bool padding = true;                   // false: a graph serves its exact size only
  bool poison = false;  // overwrite arena and padding between replays; results must not change
  bool guards = false;  // canary bytes round arena and static buffers
  // Captures no bucket now: each is reported as kNotCaptured until Runner::capture_bucket.
  bool lazy = false;
  // Called as each bucket is done; may be empty.
  std::function<void(int32_t done, int32_t total)> progress;
};

struct RunnerCapture {
  std::unique_ptr<Runner> runner;
  CaptureReport report;
};

// Device memory that a model's KV cache and runners will take, known before they are made.
struct MemoryPlan {
  int64_t kv_page_bytes = 0;     // one page over all layers
  int64_t kv_fixed_bytes = 0;    // a KV cache takes this and its pages: reserved pages, guards
  int64_t runner_bytes = 0;      // arena, static buffers and workspace still to be allocated
  int64_t executable_bytes = 0;  // of all buckets' graphs: an estimate
};

struct ModelInfo {
  int64_t weight_bytes = 0;       // device memory the weights take, copies included
  int64_t mapped_bytes = 0;       // of these, bytes read in place from mapped files
  int64_t workspace_bytes = 0;    // device memory of libraries; what runners add they report
  int64_t step_weight_bytes = 0;  // weights read by a step of one token
};

// A layer's output, seen by an observer after the layer and before the next one.
struct LayerOutput {
  int32_t layer = 0;
  int32_t num_tokens = 0;
  int32_t hidden_size = 0;
  const float* hidden = nullptr;  // [num_tokens, hidden_size], host-readable; the residual stream
};
using LayerObserver = std::function<void(const LayerOutput&)>;

class Model {
 public:
  virtual ~Model() = default;

  virtual ModelInfo info() const = 0;
  virtual Result<std::unique_ptr<KvCache>> create_kv(const KvOptions& options) = 0;
  // What a KV cache and the three runners will take. num_pages of `kv` does not matter. May
  // allocate some of it already: then that is no longer part of the plan.
  // Errors: kUnimplemented if the backend cannot tell.
  virtual Result<MemoryPlan> plan_memory(const KvOptions& kv, const CaptureOptions& options) {
    static_cast<void>(kv);
    static_cast<void>(options);
    return unimplemented("the backend does not plan memory ahead");
  }

  // The three modes. The order of the calls does not matter for results. A bucket that cannot be
  // captured is reported and skipped; an error means that there is no runner at all.
  // The runner must be destroyed before `kv`, `kv` before the model.
  virtual Result<RunnerCapture> create_eager(KvCache& kv, const CaptureOptions& options) = 0;
  virtual Result<RunnerCapture> capture_prefill(KvCache& kv, const CaptureOptions& options) = 0;
  virtual Result<RunnerCapture> capture_decode(KvCache& kv, const CaptureOptions& options) = 0;

  // Calls `observer` with every layer's output; an empty one removes it, and nothing calls the old
  // one once this returns. Observers are breaks: with one set, eager steps call it, prefill graphs
  // are captured as breakable, and decode graphs answer kObserved. A prefill graph captured without
  // one has no breaks and answers kObserved while one is set. Not while a step is in flight.
  virtual Status set_layer_observer(LayerObserver observer) = 0;

  // Errors: kInternal naming the buffer whose guard bytes are damaged, and the last step's number.
  virtual Status check_guards() const = 0;

  // For tests: from now on, capturing a graph of this bucket fails as if the device had refused it,
  // and is reported with `reason`: kOutOfMemory or kCaptureFailed. kNone ends it.
  // Errors: kInvalidArgument for another reason; kUnimplemented if the backend has no such switch.
  virtual Status fail_capture(int32_t bucket, Reason reason) {
    static_cast<void>(bucket);
    static_cast<void>(reason);
    return unimplemented("the backend cannot fail a capture on demand");
  }
};

// As LoadOptions::tensor_parallel_rank: this process runs every rank, one a device, from the given
// device on.
inline constexpr int32_t kAllRanks = -1;

struct LoadOptions {
  int32_t tensor_parallel_rank = 0;  // or kAllRanks
  int32_t tensor_parallel_size = 1;
  // Called now and then with bytes loaded so far; returning false cancels. May be empty.
  std::function<bool(int64_t done_bytes, int64_t total_bytes)> progress;
};

// Counters of Backend::stats() that the memory ledger reads: what the driver and its libraries take
// on the device, and what the backend has allocated there, graphs' executables excepted.
inline constexpr std::string_view kContextBytesStat = "memory.context_bytes";
inline constexpr std::string_view kAllocatedBytesStat = "memory.allocated_bytes";

// One per plugin and process. init() once, before anything but identity(), option_schema() and
// probe(); then any thread may call the const methods.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual BackendIdentity identity() const = 0;
  virtual std::vector<OptionSchema> option_schema() const = 0;
  // Cheap; creates no device context.
  virtual ProbeResult probe() const = 0;
  virtual Status init(const OptionValues& options) = 0;
  virtual void shutdown() = 0;

  virtual int32_t device_count() const = 0;
  virtual Result<DeviceInfo> device_info(int32_t device) const = 0;
  virtual Result<DeviceMemory> device_memory(int32_t device) const = 0;
  // Takes up to a second.
  virtual Result<DeviceLimits> measure_limits(int32_t device) = 0;

  // Whether the device can run the model, without loading it. Errors: kUnimplemented and why not.
  virtual Status check_model(int32_t device, const ModelSpec& spec,
                             std::span<const WeightInfo> weights) const = 0;
  // `weights` is borrowed for the model's life: a backend may read mapped tensors in place.
  virtual Result<std::unique_ptr<Model>> load_model(int32_t device, const ModelSpec& spec,
                                                    const WeightSource& weights,
                                                    const LoadOptions& options) = 0;

  // Counters for metrics: name and value, names stable. Two names have a meaning to the host:
  // kContextBytesStat and kAllocatedBytesStat.
  virtual std::vector<std::pair<std::string, int64_t>> stats() const = 0;
  // A quick known-answer run of the device's kernels.
  virtual Status selftest(int32_t device) = 0;
};

}  // namespace encore
