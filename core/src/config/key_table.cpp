#include "config/key_table.h"

#include <algorithm>
#include <array>

#include "config/suggest.h"

namespace encore {
namespace {

constexpr std::array<std::string_view, 4> kKvDTypes = {"auto", "f32", "f16", "bf16"};
constexpr std::array<std::string_view, 3> kPrefillModes = {"off", "full", "breakable"};
constexpr std::array<std::string_view, 4> kLogLevels = {"error", "warn", "info", "debug"};
constexpr std::array<std::string_view, 2> kLogFormats = {"text", "json"};

constexpr double kMaxContext = 16'777'216;     // 2^24 tokens
constexpr double kMaxKvTokens = 1e12;          // far above any memory
constexpr double kMaxSeed = 9007199254740991;  // 2^53 - 1: survives JSON

// clang-format off
#define ENCORE_FIELD(member) [](Config& c) -> FieldRef { return &c.member; }

const auto kKeys = std::to_array<KeyInfo>({
    {.name = "model.path", .field = ENCORE_FIELD(model.path),
     .help = "A Hugging Face directory or a .gguf file.", .is_path = true},
    {.name = "model.chat_template", .field = ENCORE_FIELD(model.chat_template),
     .help = "A Jinja file that replaces the model's own chat template; empty: the model's own.",
     .is_path = true},

    {.name = "backend.name", .field = ENCORE_FIELD(backend.name),
     .help = "The backend that runs the model; never replaced by another if it fails."},
    {.name = "backend.device", .field = ENCORE_FIELD(backend.device),
     .help = "Which of the backend's devices.", .minimum = 0, .maximum = 1023},
    {.name = "backend.options", .field = ENCORE_FIELD(backend.options),
     .help = "The plugin's own keys, checked against its schema; `encore devices` lists them."},

    {.name = "parallel.tensor", .field = ENCORE_FIELD(parallel.tensor),
     .help = "Ranks that share every layer, one a device, from backend.device on; the CPU backend "
             "divides its threads.",
     .minimum = 1, .maximum = 64},

    {.name = "plugins.load", .field = ENCORE_FIELD(plugins.load),
     .help = "Plugins to load before any others, libraries or *.plugin.yaml manifests; an optional "
             "one may fail; sha256 is that of a library."},
    {.name = "plugins.dirs", .field = ENCORE_FIELD(plugins.dirs),
     .help = "Folders searched for *.plugin.yaml manifests before the installed one.",
     .is_path = true},
    {.name = "plugins.probe_timeout_s", .field = ENCORE_FIELD(plugins.probe_timeout_s),
     .help = "Seconds that a plugin may take while a child process tries it out.",
     .minimum = 1, .maximum = 3600},

    {.name = "kv_cache.page_size", .field = ENCORE_FIELD(kv_cache.page_size),
     .help = "Tokens in one page of the KV cache.", .minimum = 1, .maximum = 1024},
    {.name = "kv_cache.dtype", .field = ENCORE_FIELD(kv_cache.dtype),
     .help = "Element type of keys and values; auto: the backend chooses.", .choices = kKvDTypes},
    {.name = "kv_cache.max_tokens", .field = ENCORE_FIELD(kv_cache.max_tokens),
     .help = "Tokens of all requests together; 0: max_running_requests x max_context, or less where "
             "memory_fraction leaves room for less.",
     .minimum = 0, .maximum = kMaxKvTokens},
    {.name = "kv_cache.memory_fraction", .field = ENCORE_FIELD(kv_cache.memory_fraction),
     .help = "How much of the device's memory may be in use; the KV cache gets what is left of that. "
             "Devices that use the host's memory heed it only where it is set.",
     .minimum = 0.01, .maximum = 1},

    {.name = "scheduler.max_running_requests", .field = ENCORE_FIELD(scheduler.max_running_requests),
     .help = "Requests that share a step.", .minimum = 1, .maximum = 4096},
    {.name = "scheduler.max_tokens_per_step", .field = ENCORE_FIELD(scheduler.max_tokens_per_step),
     .help = "New tokens of one step; longer prompts are prefilled in chunks.",
     .minimum = 1, .maximum = 1'048'576},
    {.name = "scheduler.max_context", .field = ENCORE_FIELD(scheduler.max_context),
     .help = "Tokens of one request, prompt and reply; 0: the model's limit, at most 4096.",
     .minimum = 0, .maximum = kMaxContext},
    {.name = "scheduler.prefix_cache", .field = ENCORE_FIELD(scheduler.prefix_cache),
     .help = "Keep whole pages of the KV cache for later prompts that begin with the same tokens."},

    {.name = "capture.prefill", .field = ENCORE_FIELD(capture.prefill),
     .help = "How prefill steps are captured.", .choices = kPrefillModes},
    {.name = "capture.decode", .field = ENCORE_FIELD(capture.decode),
     .help = "Whether decode steps are captured."},
    {.name = "capture.require_graph", .field = ENCORE_FIELD(capture.require_graph),
     .help = "A step that no graph can run is an error instead of running eagerly."},
    {.name = "capture.padding", .field = ENCORE_FIELD(capture.padding),
     .help = "A graph may serve smaller steps than its bucket."},
    {.name = "capture.poison", .field = ENCORE_FIELD(capture.poison),
     .help = "Debugging: overwrite arena and padding between replays."},
    {.name = "capture.guards", .field = ENCORE_FIELD(capture.guards),
     .help = "Debugging: guard bytes round arena, KV cache and static buffers."},
    {.name = "capture.lazy", .field = ENCORE_FIELD(capture.lazy),
     .help = "Serve eagerly at once and capture buckets between steps, those most asked for first."},
    {.name = "capture.prefill_buckets", .field = ENCORE_FIELD(capture.prefill_buckets),
     .help = "Padded token counts to capture; empty: chosen from max_tokens_per_step.",
     .minimum = 1, .maximum = 1'048'576},
    {.name = "capture.decode_buckets", .field = ENCORE_FIELD(capture.decode_buckets),
     .help = "Padded request counts to capture; empty: chosen from max_running_requests.",
     .minimum = 1, .maximum = 4096},

    {.name = "sampling.temperature", .field = ENCORE_FIELD(sampling.temperature),
     .help = "0 is greedy; -1: the model's generation_config, else 1.",
     .minimum = 0, .maximum = 100, .or_minus_one = true},
    {.name = "sampling.top_p", .field = ENCORE_FIELD(sampling.top_p),
     .help = "Keep the most probable tokens that add up to this; 1 is off; -1: the model's.",
     .minimum = 0, .maximum = 1, .or_minus_one = true},
    {.name = "sampling.min_p", .field = ENCORE_FIELD(sampling.min_p),
     .help = "Drop tokens less probable than this share of the most probable; 0 is off.",
     .minimum = 0, .maximum = 1},
    {.name = "sampling.repetition_penalty", .field = ENCORE_FIELD(sampling.repetition_penalty),
     .help = "Divides the logits of tokens already there; 1 is off; -1: the model's.",
     .minimum = 0.01, .maximum = 100, .or_minus_one = true},
    {.name = "sampling.presence_penalty", .field = ENCORE_FIELD(sampling.presence_penalty),
     .help = "Subtracted once from the logits of tokens already generated.",
     .minimum = -2, .maximum = 2},
    {.name = "sampling.frequency_penalty", .field = ENCORE_FIELD(sampling.frequency_penalty),
     .help = "Subtracted for each time a token was generated.", .minimum = -2, .maximum = 2},
    {.name = "sampling.top_k", .field = ENCORE_FIELD(sampling.top_k),
     .help = "Keep this many tokens; 0 is off; -1: the model's.",
     .minimum = 0, .maximum = 1'000'000'000, .or_minus_one = true},
    {.name = "sampling.seed", .field = ENCORE_FIELD(sampling.seed),
     .help = "Start of the random stream; -1: drawn at random and reported.",
     .minimum = 0, .maximum = kMaxSeed, .or_minus_one = true},
    {.name = "sampling.max_tokens", .field = ENCORE_FIELD(sampling.max_tokens),
     .help = "Most tokens generated for one request.", .minimum = 1, .maximum = kMaxContext},
    {.name = "sampling.stop", .field = ENCORE_FIELD(sampling.stop),
     .help = "Texts that end the reply; they are not part of it."},
    {.name = "sampling.ignore_eos", .field = ENCORE_FIELD(sampling.ignore_eos),
     .help = "Go on to max_tokens past the model's end tokens."},

    {.name = "server.host", .field = ENCORE_FIELD(server.host),
     .help = "Address to listen at; 0.0.0.0 is every IPv4 one, :: every one."},
    {.name = "server.port", .field = ENCORE_FIELD(server.port),
     .help = "Port to listen at; 0: any free one, reported.", .minimum = 0, .maximum = 65535},
    {.name = "server.model_name", .field = ENCORE_FIELD(server.model_name),
     .help = "The model's name in /v1/models and in replies; empty: the last part of model.path."},
    {.name = "server.api_keys", .field = ENCORE_FIELD(server.api_keys),
     .help = "Keys of which a request must bring one; empty: none is asked for.", .is_secret = true},
    {.name = "server.api_key_file", .field = ENCORE_FIELD(server.api_key_file),
     .help = "A file with more of them, one a line.", .is_path = true},
    {.name = "server.max_queue", .field = ENCORE_FIELD(server.max_queue),
     .help = "Requests that may wait beyond those that run; further ones get 429.",
     .minimum = 0, .maximum = 1'000'000},
    {.name = "server.max_connections", .field = ENCORE_FIELD(server.max_connections),
     .help = "Connections open at once, if the limit of open files allows; further ones get 503.",
     .minimum = 1, .maximum = 1'000'000},
    {.name = "server.max_body_bytes", .field = ENCORE_FIELD(server.max_body_bytes),
     .help = "Bytes of a request's body; more gets 413.", .minimum = 1024, .maximum = 1e9},
    {.name = "server.max_header_bytes", .field = ENCORE_FIELD(server.max_header_bytes),
     .help = "Bytes of a request's header; more gets 431.", .minimum = 1024, .maximum = 1'048'576},
    {.name = "server.idle_timeout_s", .field = ENCORE_FIELD(server.idle_timeout_s),
     .help = "Seconds that a connection may be silent between requests or in the middle of one.",
     .minimum = 1, .maximum = 86'400},
    {.name = "server.request_timeout_s", .field = ENCORE_FIELD(server.request_timeout_s),
     .help = "Seconds from a request's arrival to its last token; 0: no limit.",
     .minimum = 0, .maximum = 86'400},
    {.name = "server.drain_timeout_s", .field = ENCORE_FIELD(server.drain_timeout_s),
     .help = "Seconds that SIGTERM leaves to requests that run.", .minimum = 0, .maximum = 86'400},
    {.name = "server.metrics", .field = ENCORE_FIELD(server.metrics),
     .help = "Whether /metrics answers."},
    {.name = "server.page", .field = ENCORE_FIELD(server.page),
     .help = "Whether / answers with a page to look at."},

    {.name = "log.level", .field = ENCORE_FIELD(log.level),
     .help = "Least severe message to log.", .choices = kLogLevels},
    {.name = "log.format", .field = ENCORE_FIELD(log.format),
     .help = "json: one object a line, for machines.", .choices = kLogFormats},
});

#undef ENCORE_FIELD
// clang-format on

std::vector<std::string> key_names() {
  std::vector<std::string> names;
  names.reserve(kKeys.size());
  for (const KeyInfo& key : kKeys) names.emplace_back(key.name);
  return names;
}

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

}  // namespace

std::span<const KeyInfo> config_keys() { return kKeys; }

const KeyInfo* find_key(std::string_view name) {
  const auto found = std::find_if(kKeys.begin(), kKeys.end(),
                                  [name](const KeyInfo& key) { return key.name == name; });
  return found == kKeys.end() ? nullptr : &*found;
}

std::string_view key_section(std::string_view name) { return name.substr(0, name.find('.')); }

std::vector<std::string> config_sections() {
  std::vector<std::string> sections;
  for (const KeyInfo& key : kKeys) {
    const std::string section(key_section(key.name));
    if (sections.empty() || sections.back() != section) sections.push_back(section);
  }
  return sections;
}

std::string suggest_key(std::string_view name) {
  const std::vector<std::string> sections = config_sections();
  const std::string section(key_section(name));
  const bool known_section = std::find(sections.begin(), sections.end(), section) != sections.end();
  std::vector<std::string> in_section;
  for (const KeyInfo& key : kKeys) {
    if (key_section(key.name) == section) in_section.emplace_back(key.name);
  }
  std::string near = nearest(name, in_section);
  if (near.empty() && !known_section && name.find('.') == std::string_view::npos) {
    near = nearest(name, sections);
  }
  if (near.empty()) near = nearest(name, key_names());
  if (near.empty()) {
    // The right key in the wrong section.
    const std::string_view leaf = name.substr(name.rfind('.') + 1);
    for (const KeyInfo& key : kKeys) {
      if (key.name.substr(key.name.rfind('.') + 1) == leaf) near = key.name;
    }
  }
  if (!near.empty()) return "did you mean \"" + near + "\"?";
  if (known_section) return "keys of " + section + ": " + join(in_section);
  return "sections: " + join(sections);
}

}  // namespace encore
