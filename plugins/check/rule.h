// A rule of the conformance kit: one thing that every plugin must do, with a number for life.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace encore::check {

// What is checked, and how hard.
struct CheckContext {
  std::string plugin_path;                                   // absolute
  std::vector<std::pair<std::string, std::string>> options;  // backend.options; the rest by default
  int32_t device = 0;
  bool quick = false;  // a tenth of the repetitions
};

enum class Verdict : int32_t { kPass, kFail, kSkip };

// A figure that a rule reports and nobody judges.
struct Measurement {
  std::string name;  // "decode_tokens_per_s"
  double value = 0.0;
  std::string unit;  // "tokens/s"
};

struct Outcome {
  Verdict verdict = Verdict::kPass;
  std::string message;  // what was expected and found; why it was skipped; empty if it passed
  std::vector<Measurement> measurements;
};

inline Outcome pass() { return {}; }
inline Outcome fail(std::string message) { return {Verdict::kFail, std::move(message), {}}; }
inline Outcome skip(std::string message) { return {Verdict::kSkip, std::move(message), {}}; }

// The kit runs each rule in a process of its own: one that crashes or hangs has failed, and harms
// no other.
struct Rule {
  std::string_view id;     // letter of the family and a number, never reused: "R07"
  std::string_view title;  // the rule as one sentence; docs/conformance.md explains it
  Outcome (*run)(const CheckContext& context);
  int32_t timeout_s = 60;
};

// The families, in the order in which they are run.
std::span<const Rule> static_rules();       // S: the file
std::span<const Rule> load_rules();         // L: loading, initialising, ending
std::span<const Rule> negotiation_rules();  // N: versions, sizes, unknown extensions
std::span<const Rule> error_rules();        // E: errors and the state of the process
std::span<const Rule> equality_rules();     // R: what runners compute
std::span<const Rule> graph_rules();        // G: buckets, padding, replay, capture
std::span<const Rule> thread_rules();       // T: threads
std::span<const Rule> speed_rules();        // P: speed, reported only

}  // namespace encore::check
