#include "capture_table.h"

#include <algorithm>

#include "encore/reason.h"
#include "text_table.h"

namespace encore {
namespace {

int64_t num_captured(const CaptureReport& report) {
  return std::count_if(report.buckets.begin(), report.buckets.end(),
                       [](const BucketReport& b) { return b.reason == Reason::kNone; });
}

int64_t num_pending(const CaptureReport& report) {
  return std::count_if(report.buckets.begin(), report.buckets.end(),
                       [](const BucketReport& b) { return b.reason == Reason::kNotCaptured; });
}

std::string bytes(int64_t count) { return format_bytes(static_cast<double>(count)); }

void add_buckets(const std::string& graph, const CaptureReport& report, TextTable& table) {
  for (const BucketReport& bucket : report.buckets) {
    const bool captured = bucket.reason == Reason::kNone;
    table.add_row({graph, std::to_string(bucket.bucket), bytes(bucket.arena_bytes),
                   bytes(bucket.executable_bytes), bytes(bucket.workspace_bytes),
                   std::to_string(bucket.num_nodes), std::to_string(bucket.num_segments),
                   format_us(static_cast<double>(bucket.capture_us)),
                   captured ? "" : std::string(reason_name(bucket.reason))});
  }
}

void add_sum(const std::string& runner, const CaptureReport& report, TextTable& table) {
  table.add_row({runner, bytes(report.arena_bytes), bytes(report.static_bytes),
                 bytes(report.executable_bytes), bytes(report.workspace_bytes),
                 bytes(report.memory_bytes()), format_us(static_cast<double>(report.total_us))});
}

void add_skipped(const std::string& graph, const CaptureReport& report,
                 std::vector<std::string>& lines) {
  for (const BucketReport& bucket : report.buckets) {
    if (bucket.reason == Reason::kNone || bucket.reason == Reason::kNotCaptured) continue;
    std::string line = graph + " bucket " + std::to_string(bucket.bucket) + " was not captured (";
    line += reason_name(bucket.reason);
    line += ")";
    if (!bucket.message.empty()) line += ": " + bucket.message;
    lines.push_back(line + "; its steps use a larger bucket or run eagerly");
  }
}

}  // namespace

std::string prefill_mode_name(PrefillMode mode) {
  switch (mode) {
    case PrefillMode::kOff:
      return "off";
    case PrefillMode::kFull:
      return "full";
    case PrefillMode::kBreakable:
      return "breakable";
  }
  return "unknown";
}

std::string describe_capture(const CaptureSummary& summary) {
  std::string text = "prefill " + prefill_mode_name(summary.prefill_mode);
  if (summary.prefill_mode != PrefillMode::kOff) {
    text += ", " + std::to_string(num_captured(summary.prefill)) + " buckets";
  }
  text += summary.has_decode
              ? "; decode, " + std::to_string(num_captured(summary.decode)) + " buckets"
              : std::string("; decode off");
  const int64_t pending = num_pending(summary.prefill) + num_pending(summary.decode);
  if (pending > 0) text += "; " + std::to_string(pending) + " to be captured between steps";
  return text + "; " + bytes(summary.memory_bytes());
}

std::string capture_table(const CaptureSummary& summary) {
  TextTable buckets({"graph", "bucket", "arena", "executable", "workspace", "nodes", "segments",
                     "capture", "skipped"});
  add_buckets("prefill", summary.prefill, buckets);
  add_buckets("decode", summary.decode, buckets);
  TextTable sums({"runner", "arena", "static", "executable", "workspace", "sum", "time"});
  add_sum("eager", summary.eager, sums);
  add_sum("prefill", summary.prefill, sums);
  add_sum("decode", summary.decode, sums);
  return "capture report\n" + buckets.text() + "memory, shared parts counted once\n" + sums.text();
}

std::vector<std::string> skipped_buckets(const CaptureSummary& summary) {
  std::vector<std::string> lines;
  add_skipped("prefill graph", summary.prefill, lines);
  add_skipped("decode graph", summary.decode, lines);
  return lines;
}

}  // namespace encore
