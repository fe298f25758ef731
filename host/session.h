// One run of one model: everything between a configuration and an engine, in one place.
//
// open() wires plugin -> backend -> model files -> tokenizer -> model -> KV cache -> graphs, in
// that order, and the destructor takes it apart in the reverse one. run, chat, bench and doctor use
// it; no other file makes any of these.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "config/config_loader.h"
#include "encore/backend.h"
#include "encore/capture.h"
#include "encore/status.h"
#include "engine/engine.h"
#include "memory_ledger.h"
#include "model/model_files.h"
#include "open_backend.h"
#include "session_summary.h"
#include "text/tokenizer.h"

namespace encore {

// A device that works by itself and takes longer for a step hangs: no step comes near it.
inline constexpr std::chrono::seconds kStepTimeout{60};

// Threads: those of its parts. Destroy it on the thread that made it.
class Session {
 public:
  // Errors: kInvalidArgument for what the configuration can put right, naming key and place; the
  // parts' own errors otherwise. Nothing is replaced by anything else: a backend, mode or size that
  // does not work is an error.
  static Result<std::unique_ptr<Session>> open(const LoadedConfig& loaded);

  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Hands the captures to an engine, whose text begins as `decode` says. Once.
  Status start_engine(const DecodeOptions& decode);

  const LoadedConfig& loaded() const { return loaded_; }
  const Config& config() const { return loaded_.config; }
  Backend& backend() { return *backend_.backend; }
  const ModelFiles& files() const { return files_; }
  Model& model() { return *model_; }
  KvCache& kv() { return *kv_; }
  // Until start_engine().
  const GraphsCapture& graphs() const { return graphs_; }
  // REQUIRES: start_engine() succeeded.
  Engine& engine() { return *engine_; }

  // The model's, or the reason why it has none.
  Result<const Tokenizer*> tokenizer() const;

  const CaptureOptions& capture_options() const { return capture_options_; }
  const CaptureSummary& capture_summary() const { return summary_; }
  // What is on the device now; graphs that were captured later included.
  Result<MemoryLedger> ledger() const;
  // Whether the engine submits steps ahead: where the device runs them by itself.
  bool submits_ahead() const { return (device_.capabilities & kCapabilityAsync) != 0; }
  const SessionTimings& timings() const { return timings_; }
  // prompt and reply of one request: the least of configuration, model and 4096 if neither is set.
  int32_t max_context() const { return capture_options_.limits.max_context; }
  int32_t num_valid_tokens() const;

 private:
  explicit Session(const LoadedConfig& loaded) : loaded_(loaded) {}

  Status open_files();
  Status set_limits();
  Status load_weights();
  Status create_kv();
  Result<int64_t> choose_kv_pages(const KvOptions& options);
  Result<int64_t> pages_in_memory(const KvOptions& options, int64_t least, int64_t most);
  Status create_kv_of(KvOptions options, int64_t least_pages);
  Status check_kv_fits(int64_t kv_bytes);
  Status check_memory() const;
  Status capture();

  LoadedConfig loaded_;
  OpenBackend backend_;
  DeviceInfo device_;
  MemoryBaseline baseline_;
  ModelFiles files_;
  Result<std::unique_ptr<Tokenizer>> tokenizer_ = not_found("the model has no tokenizer");
  std::unique_ptr<Model> model_;
  std::unique_ptr<KvCache> kv_;
  GraphsCapture graphs_;
  std::unique_ptr<Engine> engine_;

  CaptureOptions capture_options_;
  CaptureSummary summary_;
  SessionTimings timings_;
};

// "SmolLM2 135M, llama, 30 layers, ...": one line about the model.
std::string describe_model(const ModelSpec& spec);

}  // namespace encore
