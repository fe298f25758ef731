// encore graphs CONFIG: captures, makes a few steps of every size, and shows what was captured,
// what it takes, what ran on it, and what one step spends its time on.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "bench_measure.h"
#include "config_flags.h"
#include "exit_code.h"
#include "generate.h"
#include "graphs_report.h"
#include "interrupt.h"
#include "logging.h"
#include "session.h"
#include "verbs.h"

namespace encore {
namespace {

constexpr int32_t kDecodeSteps = 6;  // of each batch size
constexpr int32_t kDepth = 16;       // tokens in the cache of the step that is traced

struct GraphsFlags {
  ConfigFlags config;
  bool json = false;
  std::string html;
};

int32_t largest_captured(const CaptureReport& report) {
  int32_t largest = 0;
  for (const BucketReport& bucket : report.buckets) {
    if (bucket.reason == Reason::kNone) largest = std::max(largest, bucket.bucket);
  }
  return largest;
}

// Traces one step of a runner, or says why it cannot.
TracedStep trace(Session& session, Runner* runner, const std::string& what, int32_t batch,
                 int32_t tokens) {
  TracedStep step;
  step.what = what;
  if (runner == nullptr || batch < 1 || tokens < 1) {
    step.missing = "no bucket was captured";
    return step;
  }
  const KvInfo kv = session.kv().info();
  const bool decode = runner->kind() == RunnerKind::kDecodeGraph;
  const int32_t longest = decode ? kDepth + 1 : tokens;
  BenchSizes sizes;
  sizes.page_size = kv.page_size;
  sizes.pages_a_request = (longest + kv.page_size - 1) / kv.page_size;
  sizes.max_tokens = session.capture_options().limits.max_tokens;
  sizes.num_valid_tokens = session.num_valid_tokens();
  if (int64_t{batch} * sizes.pages_a_request > kv.num_pages || longest > session.max_context()) {
    step.missing = "the KV cache is too small for this step";
    return step;
  }
  BenchStepper stepper(sizes);
  Result<std::vector<TraceEvent>> events =
      stepper.trace(*runner, batch, decode ? kDepth : 0, decode ? 1 : tokens);
  if (events.ok()) {
    step.events = *std::move(events);
  } else {
    step.missing = events.status().message();
  }
  return step;
}

std::vector<TracedStep> trace_steps(Session& session) {
  const GraphsCapture& graphs = session.graphs();
  const CaptureSummary& capture = session.capture_summary();
  std::vector<TracedStep> steps;
  const int32_t decode = largest_captured(capture.decode);
  std::vector<int32_t> batches = {1};
  if (decode > 1) batches.push_back(decode);
  steps.reserve(batches.size() + 1);
  for (const int32_t batch : batches) {
    steps.push_back(trace(session, graphs.decode.runner.get(),
                          "decode graph, " + std::to_string(batch) + " requests",
                          std::min(batch, decode), 1));
  }
  if (capture.prefill_mode != PrefillMode::kOff) {
    const int32_t tokens = std::min(largest_captured(capture.prefill), session.max_context());
    steps.push_back(trace(session, graphs.prefill.runner.get(),
                          "prefill graph, " + std::to_string(tokens) + " tokens", 1, tokens));
  }
  return steps;
}

// Requests that decode at every bucket size, and a prompt for every prefill bucket.
Status scripted_run(Session& session) {
  const int32_t longest = session.engine().max_request_tokens();
  const auto request = [&](int32_t prompt_size, int32_t max_tokens) {
    RequestOptions options;
    const int32_t size = std::clamp(prompt_size, 1, std::max(1, longest - max_tokens));
    // Prompts of different lengths begin differently: the prefix cache is to find nothing.
    for (int32_t i = 0; i < size; ++i) {
      options.prompt.push_back((size + i) % session.num_valid_tokens());
    }
    options.max_tokens = max_tokens;
    options.ignore_eos = true;
    return options;
  };
  const auto run = [&](std::vector<RequestOptions> requests) -> Status {
    ENCORE_ASSIGN_OR_RETURN(const Generation generation,
                            generate(session.engine(), std::move(requests), {}));
    return generation.engine_status;
  };
  const CaptureSummary capture = session.capture_summary();
  for (const BucketReport& bucket : capture.decode.buckets) {
    if (interrupted()) return {};
    const std::vector<RequestOptions> requests(static_cast<size_t>(bucket.bucket),
                                               request(2, kDecodeSteps));
    ENCORE_RETURN_IF_ERROR(run(requests));
  }
  for (const BucketReport& bucket : capture.prefill.buckets) {
    if (interrupted()) return {};
    ENCORE_RETURN_IF_ERROR(run({request(bucket.bucket, 1)}));
  }
  return {};
}

Status write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (file.good()) return {};
  return invalid_argument("cannot write " + path + "; name a file in a folder that exists");
}

Result<int> graphs(const GraphsFlags& flags) {
  ENCORE_ASSIGN_OR_RETURN(const LoadedConfig loaded, flags.config.load());
  catch_interrupts();
  ENCORE_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Session::open(loaded));
  ENCORE_ASSIGN_OR_RETURN(const DeviceInfo device,
                          session->backend().device_info(loaded.config.backend.device));
  GraphsReport report;
  report.model = loaded.config.model.path;
  report.backend = loaded.config.backend.name;
  report.device = device.name + " (" + device.architecture + ")";
  report.steps = trace_steps(*session);
  ENCORE_RETURN_IF_ERROR(session->start_engine({}));
  ENCORE_RETURN_IF_ERROR(scripted_run(*session));
  report.capture = session->capture_summary();
  ENCORE_ASSIGN_OR_RETURN(report.ledger, session->ledger());
  report.dispatch = session->engine().stats().dispatch;
  if (!flags.html.empty()) ENCORE_RETURN_IF_ERROR(write_file(flags.html, graphs_html(report)));
  const std::string text = flags.json ? graphs_json(report) + "\n" : graphs_text(report);
  std::fputs(text.c_str(), stdout);
  return interrupted() ? kExitInterrupted : kExitOk;
}

}  // namespace

void declare_graphs(CLI::App& app, VerbAction& action) {
  CLI::App* verb = app.add_subcommand("graphs", "Show what is captured, and what runs on it");
  auto flags = std::make_shared<GraphsFlags>();
  flags->config.declare(*verb, ConfigFlags::File::kRequired);
  verb->add_flag("--json", flags->json, "One JSON object on stdout");
  verb->add_option("--html", flags->html, "Also write a picture to this file")->option_text("FILE");
  verb->callback([flags, &action] {
    action = [flags] {
      const Result<int> result = graphs(*flags);
      return result.ok() ? *result : report_error(result.status());
    };
  });
}

}  // namespace encore
