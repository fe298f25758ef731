#include "bench_serve.h"

#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "bench_serve_client.h"
#include "bench_serve_load.h"
#include "bench_serve_prompts.h"
#include "bench_serve_report.h"
#include "bench_serve_server.h"
#include "bench_serve_workload.h"
#include "exit_code.h"
#include "interrupt.h"
#include "logging.h"
#include "text_table.h"

namespace encore {
namespace {

struct ServeFlags {
  std::string url = "http://127.0.0.1:8000";
  std::string model;
  std::string api_key;
  int64_t requests = 100;
  double rate = std::numeric_limits<double>::infinity();
  int32_t concurrency = 0;
  std::string input_tokens = "128";
  std::string output_tokens = "64";
  std::string dataset;
  bool text = false;
  bool chat = false;
  bool ignore_eos = false;
  double temperature = 0.0;
  uint64_t seed = 0;
  int64_t warmup = 1;
  int32_t timeout_s = 600;
  std::string json;
};

std::string load_text(const ServeFlags& flags) {
  std::string text = std::isfinite(flags.rate)
                         ? "Poisson arrivals, " + format_number(flags.rate, 2) + " a second"
                         : std::string("all at once");
  if (flags.concurrency <= 0) return text;
  const std::string most = std::to_string(flags.concurrency) + " at a time";
  return std::isfinite(flags.rate) ? text + ", at most " + most : most;
}

struct Lengths {
  LengthRange input;
  LengthRange output;
};

Result<Lengths> read_lengths(const ServeFlags& flags) {
  Lengths lengths;
  ENCORE_ASSIGN_OR_RETURN(lengths.input, parse_length(flags.input_tokens));
  ENCORE_ASSIGN_OR_RETURN(lengths.output, parse_length(flags.output_tokens));
  return lengths;
}

Result<LoadPrompts> make_prompts(const ServeFlags& flags, const Lengths& lengths,
                                 LoadClient& client, const RemoteModel& model,
                                 std::mt19937_64& random) {
  const int64_t count = flags.requests + flags.warmup;
  if (!flags.dataset.empty()) {
    return dataset_prompts(client, model, flags.dataset, count, random);
  }
  return random_prompts(client, model, lengths.input, lengths.output, flags.text || flags.chat,
                        count, random);
}

// The first flags.requests bodies are the load's, the others the warm-up's.
LoadPlan make_plan(const ServeFlags& flags, const RemoteModel& model, const LoadPrompts& prompts,
                   std::mt19937_64& random) {
  LoadBodyOptions options;
  options.model = model.name;
  options.chat = flags.chat;
  options.ignore_eos = flags.ignore_eos;
  options.temperature = flags.temperature;
  LoadPlan plan;
  plan.path = flags.chat ? "/v1/chat/completions" : "/v1/completions";
  plan.concurrency = flags.concurrency;
  plan.bodies.reserve(prompts.prompts.size());
  for (const LoadPrompt& prompt : prompts.prompts) {
    plan.bodies.push_back(load_body(prompt, options));
  }
  plan.arrivals_s = arrival_times(random, flags.requests, flags.rate);
  return plan;
}

// Moves the bodies behind the first `count` out.
std::vector<std::string> take_rest(std::vector<std::string>& bodies, int64_t count) {
  const auto first = bodies.begin() + count;
  std::vector<std::string> rest(std::make_move_iterator(first),
                                std::make_move_iterator(bodies.end()));
  bodies.erase(first, bodies.end());
  return rest;
}

// Some requests that do not count. Errors: kUnavailable with the first message, if all fail.
Status warm_up(LoadClient& client, const std::string& path, std::vector<std::string> bodies) {
  LoadPlan plan;
  plan.path = path;
  plan.arrivals_s.assign(bodies.size(), 0.0);
  plan.bodies = std::move(bodies);
  plan.concurrency = 4;
  const LoadOutcome outcome = run_load(client, plan, "warm-up");
  for (const LoadRecord& record : outcome.records) {
    if (record.ok) return {};
  }
  if (outcome.records.empty()) return {};
  const LoadRecord& first = outcome.records.front();
  const std::string how =
      first.http_status == 0 ? std::string() : "HTTP " + std::to_string(first.http_status) + ": ";
  return unavailable("every request of the warm-up failed, the first with " + how + first.error);
}

Status write_json(const std::string& path, const std::string& text) {
  if (path == "-") {
    std::puts(text.c_str());
    return {};
  }
  std::ofstream file(path, std::ios::binary);
  file << text << "\n";
  file.close();
  return file ? Status() : not_found("cannot write " + path + ": give another file to --json");
}

Result<int> bench_serve(const ServeFlags& flags) {
  catch_interrupts();
  ENCORE_ASSIGN_OR_RETURN(const Lengths lengths, read_lengths(flags));
  ENCORE_ASSIGN_OR_RETURN(const ServerUrl url, parse_server_url(flags.url));
  ENCORE_ASSIGN_OR_RETURN(
      const std::unique_ptr<LoadClient> client,
      LoadClient::open(url, flags.api_key, std::chrono::seconds(flags.timeout_s)));
  ENCORE_ASSIGN_OR_RETURN(const RemoteModel model, find_model(*client, flags.model));
  std::mt19937_64 random(flags.seed);
  ENCORE_ASSIGN_OR_RETURN(const LoadPrompts prompts,
                          make_prompts(flags, lengths, *client, model, random));
  if (interrupted()) return kExitInterrupted;
  LoadPlan plan = make_plan(flags, model, prompts, random);
  std::vector<std::string> warm_up_bodies = take_rest(plan.bodies, flags.requests);
  ENCORE_RETURN_IF_ERROR(warm_up(*client, plan.path, std::move(warm_up_bodies)));

  const LoadOutcome outcome = run_load(*client, plan, "requests");
  const LoadSummary summary = summarize(outcome.records, outcome.duration_s);
  LoadHeader header;
  header.url = url.text();
  header.model = model.name;
  header.endpoint = plan.path;
  header.load = load_text(flags);
  header.lengths = prompts.lengths;
  header.requests = flags.requests;
  header.seed = flags.seed;
  if (flags.json != "-") std::fputs(load_table(header, summary).c_str(), stdout);
  if (!flags.json.empty()) {
    ENCORE_RETURN_IF_ERROR(write_json(flags.json, load_json(header, summary)));
  }
  if (interrupted()) return kExitInterrupted;
  return summary.completed > 0 ? kExitOk : kExitFailure;
}

void declare_load(CLI::App& verb, ServeFlags& flags) {
  verb.add_option("-n,--requests", flags.requests, "Requests to send")
      ->check(CLI::Range(int64_t{1}, int64_t{10'000'000}))
      ->capture_default_str();
  verb.add_option("--rate", flags.rate, "Mean arrivals a second (Poisson); inf: all at once")
      ->check(CLI::Validator(
          [](const std::string& text) {
            double rate = 0.0;
            const bool valid = CLI::detail::lexical_cast(text, rate) && rate > 0.0;
            return valid ? std::string() : "the rate is " + text + "; it must be above 0, or inf";
          },
          ""))
      ->option_text("R=inf");
  verb.add_option("-c,--concurrency", flags.concurrency,
                  "Requests under way at most; 0: any number")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  CLI::Option* input = verb.add_option("--input-tokens", flags.input_tokens,
                                       "Length of prompts: MEAN or MEAN:SPREAD, even in between")
                           ->capture_default_str();
  CLI::Option* output =
      verb.add_option("--output-tokens", flags.output_tokens, "Length of replies, likewise")
          ->capture_default_str();
  verb.add_option("--dataset", flags.dataset, "Conversations in ShareGPT's format (JSON)")
      ->option_text("FILE")
      ->excludes(input)
      ->excludes(output);
}

}  // namespace

CLI::App& declare_bench_serve(CLI::App& bench, VerbAction& action) {
  CLI::App* verb = bench.add_subcommand("serve", "Drive a running server and measure it");
  auto flags = std::make_shared<ServeFlags>();
  verb->add_option("--url", flags->url, "Base URL of any server with OpenAI's API")
      ->capture_default_str();
  verb->add_option("--model", flags->model, "Model's name; the server's first unless given");
  verb->add_option("--api-key", flags->api_key, "Sent as a bearer token")->option_text("KEY");
  declare_load(*verb, *flags);
  verb->add_flag("--text", flags->text, "Prompts of words even if the server takes token ids");
  verb->add_flag("--chat", flags->chat, "Use /v1/chat/completions");
  verb->add_flag("--ignore-eos", flags->ignore_eos, "Every reply has its full length");
  verb->add_option("--temperature", flags->temperature, "0 is greedy")
      ->check(CLI::Range(0.0, 2.0))
      ->capture_default_str();
  verb->add_option("--seed", flags->seed, "Of prompts, lengths and arrivals")
      ->capture_default_str();
  verb->add_option("--warmup", flags->warmup, "Requests sent before, not counted")
      ->check(CLI::Range(int64_t{0}, int64_t{100'000}))
      ->capture_default_str();
  verb->add_option("--timeout", flags->timeout_s, "Seconds that an answer may bring nothing")
      ->check(CLI::Range(1, 86'400))
      ->capture_default_str();
  verb->add_option("--json", flags->json, "Write the results here; -: to stdout, without the table")
      ->option_text("FILE");
  verb->callback([flags, &action] {
    action = [flags] {
      const Result<int> result = bench_serve(*flags);
      return result.ok() ? *result : report_error(result.status());
    };
  });
  return *verb;
}

}  // namespace encore
