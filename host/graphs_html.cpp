#include <algorithm>
#include <string>
#include <vector>

#include "capture_table.h"
#include "encore/reason.h"
#include "graphs_report.h"
#include "text_table.h"

namespace encore {
namespace {

constexpr double kWidth = 1000.0;  // of every picture, in its own units
constexpr double kRow = 18.0;
constexpr double kLabel = 150.0;

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string number(double value) { return format_number(value, 2); }

std::string rectangle(double x, double y, double width, double height, const std::string& colour,
                      const std::string& title) {
  return "<rect x=\"" + number(x) + "\" y=\"" + number(y) + "\" width=\"" + number(width) +
         "\" height=\"" + number(height) + "\" fill=\"" + colour + "\"><title>" + escaped(title) +
         "</title></rect>";
}

std::string label(double x, double y, const std::string& text) {
  return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\">" + escaped(text) + "</text>";
}

std::string picture(double height, const std::string& content) {
  return "<svg viewBox=\"0 0 " + number(kWidth) + " " + number(height) + "\">" + content +
         "</svg>\n";
}

// The same op has the same colour in every layer: "layer 3 qkv" is coloured as "qkv".
std::string colour_of(const std::string& name) {
  const size_t space = name.rfind("layer ", 0) == 0 ? name.find(' ', 6) : std::string::npos;
  const std::string kind = space == std::string::npos ? name : name.substr(space + 1);
  uint32_t hash = 2166136261U;
  for (const char c : kind) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return "hsl(" + std::to_string(hash % 360U) + ",55%," + std::to_string(45U + hash / 360U % 20U) +
         "%)";
}

// One bar a bucket, as long as its graph has nodes.
std::string bucket_bars(const std::string& graph, const CaptureReport& report) {
  if (report.buckets.empty()) return "";
  int32_t most = 1;
  for (const BucketReport& bucket : report.buckets) most = std::max(most, bucket.num_nodes);
  std::string content;
  double y = 0.0;
  for (const BucketReport& bucket : report.buckets) {
    const bool captured = bucket.reason == Reason::kNone;
    const std::string about =
        captured
            ? std::to_string(bucket.num_nodes) + " nodes, " + std::to_string(bucket.num_segments) +
                  " launches, " + format_bytes(static_cast<double>(bucket.executable_bytes)) +
                  " executable, " + format_bytes(static_cast<double>(bucket.arena_bytes)) +
                  " arena, captured in " + format_us(static_cast<double>(bucket.capture_us))
            : "not captured: " + std::string(reason_name(bucket.reason)) + " " + bucket.message;
    const double width = (kWidth - kLabel) * 0.4 * bucket.num_nodes / most;
    content += label(0, y + 13, "bucket " + std::to_string(bucket.bucket));
    content += rectangle(kLabel, y + 2, captured ? width : 4, kRow - 4,
                         captured ? "#3b7dd8" : "#c0392b", about);
    content += label(kLabel + (captured ? width : 4) + 6, y + 13, about);
    y += kRow;
  }
  return "<h2>" + escaped(graph) + "</h2>\n" + picture(y, content);
}

std::string timeline(const TracedStep& step) {
  std::string html = "<h2>" + escaped(step.what) + "</h2>\n";
  if (!step.missing.empty()) {
    return html + "<p>No timeline: " + escaped(step.missing) + "</p>\n";
  }
  double end_us = 1e-3;
  int32_t lanes = 1;
  for (const TraceEvent& event : step.events) {
    end_us = std::max(end_us, event.start_us + event.duration_us);
    lanes = std::max(lanes, event.lane + 1);
  }
  const double scale = kWidth / end_us;
  std::string content;
  for (const TraceEvent& event : step.events) {
    content +=
        rectangle(event.start_us * scale, event.lane * 2 * kRow,
                  std::max(event.duration_us * scale, 0.3), 2 * kRow - 4, colour_of(event.name),
                  event.name + ": " + format_number(event.duration_us, 2) + " us at " +
                      format_number(event.start_us, 2) + " us");
  }
  html += "<p>" + std::to_string(step.events.size()) + " events in " + format_us(end_us) +
          "; turn the wheel to zoom, drag to move, point at one for its name.</p>\n<div "
          "class=\"timeline\">" +
          picture(lanes * 2 * kRow, content) + "</div>\n";
  return html + "<p class=\"name\">&nbsp;</p>\n";
}

constexpr const char* kStyle =
    "body{font:14px sans-serif;margin:2em;max-width:1200px}svg{width:100%;display:block}"
    "text{font-size:11px}pre{font-size:12px;overflow:auto}.timeline svg{height:90px;"
    "background:#f4f4f4;cursor:grab}.name{font-family:monospace}";

// Zooms and moves a timeline by its viewBox.
constexpr const char* kScript = R"(
for (const div of document.querySelectorAll('.timeline')) {
  const svg = div.firstElementChild, name = div.nextElementSibling;
  const all = svg.viewBox.baseVal.width, high = svg.viewBox.baseVal.height;
  svg.setAttribute('preserveAspectRatio', 'none');
  let x = 0, w = all, from = null;
  const show = () => {
    w = Math.min(w, all); x = Math.max(0, Math.min(x, all - w));
    svg.setAttribute('viewBox', `${x} 0 ${w} ${high}`);
  };
  svg.addEventListener('wheel', e => {
    e.preventDefault();
    const at = e.offsetX / svg.clientWidth, factor = e.deltaY > 0 ? 1.25 : 0.8;
    x += w * at * (1 - Math.min(factor, all / w)); w *= factor; show();
  });
  svg.addEventListener('pointerdown', e => { from = e.clientX; });
  window.addEventListener('pointerup', () => { from = null; });
  svg.addEventListener('pointermove', e => {
    const title = e.target.querySelector('title');
    if (title && e.target !== svg) name.textContent = title.textContent;
    if (from === null) return;
    x -= (e.clientX - from) * w / svg.clientWidth; from = e.clientX; show();
  });
}
)";

}  // namespace

std::string graphs_html(const GraphsReport& report) {
  std::string html =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Encore "
      "graphs</title><style>" +
      std::string(kStyle) + "</style></head><body>\n<h1>Graphs of " + escaped(report.model) +
      "</h1>\n<p>" + escaped(report.backend) + ", " + escaped(report.device) + "</p>\n";
  html += bucket_bars("Prefill graph, " + prefill_mode_name(report.capture.prefill_mode),
                      report.capture.prefill);
  html += bucket_bars("Decode graph", report.capture.decode);
  for (const TracedStep& step : report.steps) html += timeline(step);
  html += "<h2>All figures</h2>\n<pre>" + escaped(graphs_text(report)) + "</pre>\n<script>" +
          kScript + "</script>\n</body></html>\n";
  return html;
}

}  // namespace encore
