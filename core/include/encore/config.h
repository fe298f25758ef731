// Everything a run can be told, with defaults. Filled from flags, environment, file, in that order.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "encore/backend.h"
#include "encore/dtype.h"

namespace encore {

struct ModelConfig {
  std::string path;           // a Hugging Face directory or a .gguf file
  std::string chat_template;  // file that replaces the model's own; empty: the model's own
};

struct BackendConfig {
  std::string name = "cpu";
  int32_t device = 0;
  std::vector<std::pair<std::string, std::string>>
      options;  // as written; the plugin has the schema
};

struct PluginLoad {
  std::string path;         // of a library or a *.plugin.yaml
  bool optional = false;    // it may fail
  std::string sha256 = {};  // that the library must have, 64 lower-case digits; empty: any
};

struct PluginsConfig {
  std::vector<PluginLoad> load;
  std::vector<std::string> dirs;  // searched for manifests before the installed plugin folder
  int32_t probe_timeout_s = 30;   // of the child process that tries a plugin out
};

struct ParallelConfig {
  int32_t tensor = 1;  // ranks that share every layer, one a device, from backend.device on
};

struct KvCacheConfig {
  int32_t page_size = 16;         // tokens
  DType dtype = DType::kInvalid;  // kInvalid: the backend chooses
  int64_t max_tokens = 0;         // over all requests; 0: chosen, see memory_fraction
  // Of a device with memory of its own, how much all that Encore keeps there may fill.
  float memory_fraction = 0.9F;
};

struct SchedulerConfig {
  int32_t max_running_requests = 4;
  int32_t max_tokens_per_step = 512;
  int32_t max_context = 0;   // tokens of one request; 0: the model's, at most 4096
  bool prefix_cache = true;  // whole pages are kept for prompts that begin alike
};

struct CaptureConfig {
  PrefillMode prefill = PrefillMode::kFull;
  bool decode = true;
  bool require_graph = false;  // a fallback to eager is an error
  bool padding = true;
  bool poison = false;
  bool guards = false;
  bool lazy = false;                     // capture buckets between steps instead of at the start
  std::vector<int32_t> prefill_buckets;  // empty: defaults
  std::vector<int32_t> decode_buckets;
};

// Defaults of a request; unset values (-1) come from the model's generation_config.json.
struct SamplingConfig {
  float temperature = -1.0F;
  float top_p = -1.0F;
  float min_p = 0.0F;
  float repetition_penalty = -1.0F;
  float presence_penalty = 0.0F;
  float frequency_penalty = 0.0F;
  int32_t top_k = -1;
  int64_t seed = -1;  // -1: drawn at random and reported
  int32_t max_tokens = 256;
  std::vector<std::string> stop;
  bool ignore_eos = false;
};

// What `encore serve` needs beside the rest.
struct ServerConfig {
  std::string host = "127.0.0.1";  // address to listen at
  int32_t port = 8000;             // 0: any free one, reported
  std::string model_name;          // in /v1/models and replies; empty: the last part of model.path
  std::vector<std::string> api_keys;  // any of them is accepted; empty: none is asked for
  std::string api_key_file;           // more of them, one a line
  int32_t max_queue = 1024;           // requests that wait beyond those that run; more get 429
  int32_t max_connections = 4096;
  int64_t max_body_bytes = int64_t{32} << 20;
  int32_t max_header_bytes = 16 << 10;
  int32_t idle_timeout_s = 75;    // of a connection between requests, or in the middle of one
  int32_t request_timeout_s = 0;  // of a request, from its arrival to its last token; 0: none
  int32_t drain_timeout_s = 30;   // how long SIGTERM waits for requests that run
  bool metrics = true;            // /metrics
  bool page = true;               // the page at /
};

struct LogConfig {
  std::string level = "info";   // error, warn, info, debug
  std::string format = "text";  // text, json: one object a line
};

struct Config {
  ModelConfig model;
  BackendConfig backend;
  ParallelConfig parallel;
  PluginsConfig plugins;
  KvCacheConfig kv_cache;
  SchedulerConfig scheduler;
  CaptureConfig capture;
  SamplingConfig sampling;
  ServerConfig server;
  LogConfig log;
};

}  // namespace encore
