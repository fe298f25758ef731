#include "bench_report.h"

#include <nlohmann/json.hpp>

#include "text_table.h"

namespace encore {
namespace {

using Json = nlohmann::ordered_json;

std::string quote_csv(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + '"';
}

}  // namespace

std::string bench_table(const BenchHeader& header, const std::vector<BenchResult>& results) {
  std::string text = "model    " + header.model + "\nbackend  " + header.backend + ", " +
                     header.device + "\nlimits   ";
  text += format_bytes(header.limits.read_bytes_per_s) + "/s read, ";
  text += format_number(header.limits.matmul_ops_per_s / 1e12, 3) + " TFLOP/s, measured now\n";
  TextTable table({"test", "runner", "batch", "tokens/s", "+-", "median", "step", "read", "linears",
                   "of limit"});
  for (const BenchResult& result : results) {
    if (!result.skipped.empty()) {
      table.add_row({result.test, result.runner, std::to_string(result.batch), "", "", "", "", "",
                     "", "skipped: " + result.skipped});
      continue;
    }
    const std::string share = result.share_of_peak > 0.0
                                  ? format_number(result.share_of_peak * 100.0, 1) + " %"
                                  : std::string();
    table.add_row({result.test, result.runner, std::to_string(result.batch),
                   format_number(result.tokens_per_s.mean, 1),
                   format_number(result.tokens_per_s.deviation, 1),
                   format_number(result.tokens_per_s.median, 1), format_us(result.step_us),
                   format_bytes(result.bytes_per_s) + "/s",
                   format_number(result.ops_per_s / 1e12, 3) + " TFLOP/s", share});
  }
  return text + table.text();
}

std::string bench_json(const BenchHeader& header, const std::vector<BenchResult>& results) {
  Json json;
  json["model"] = header.model;
  json["backend"] = header.backend;
  json["device"] = header.device;
  json["repetitions"] = header.repetitions;
  json["limits"] = {{"read_bytes_per_s", header.limits.read_bytes_per_s},
                    {"matmul_ops_per_s", header.limits.matmul_ops_per_s}};
  Json rows = Json::array();
  for (const BenchResult& result : results) {
    Json row = {{"test", result.test},
                {"runner", result.runner},
                {"batch", result.batch},
                {"length", result.length},
                {"depth", result.depth}};
    if (!result.skipped.empty()) {
      row["skipped"] = result.skipped;
    } else {
      row["tokens_per_s"] = {{"mean", result.tokens_per_s.mean},
                             {"deviation", result.tokens_per_s.deviation},
                             {"median", result.tokens_per_s.median},
                             {"samples", result.samples_tokens_per_s}};
      row["step_us"] = result.step_us;
      row["bytes_per_s"] = result.bytes_per_s;
      row["ops_per_s"] = result.ops_per_s;
      row["share_of_peak"] = result.share_of_peak;
    }
    rows.push_back(row);
  }
  json["results"] = rows;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string bench_csv(const std::vector<BenchResult>& results) {
  std::string text =
      "test,runner,batch,length,depth,mean_tokens_per_s,deviation,median,step_us,bytes_per_s,ops_"
      "per_s,"
      "share_of_peak,skipped\n";
  for (const BenchResult& result : results) {
    text += quote_csv(result.test) + "," + result.runner + "," + std::to_string(result.batch);
    text += ",";
    text += std::to_string(result.length) + "," + std::to_string(result.depth);
    for (const double value :
         {result.tokens_per_s.mean, result.tokens_per_s.deviation, result.tokens_per_s.median,
          result.step_us, result.bytes_per_s, result.ops_per_s, result.share_of_peak}) {
      text += ",";
      text += format_number(value, 4);
    }
    text += ",";
    text += quote_csv(result.skipped) + "\n";
  }
  return text;
}

}  // namespace encore
