// What a step costs the host: an engine over a backend that answers at once, and what the server
// does with its events.
//
//   host_cost_bench [--steps=N]
//
// Prints, for 1, 8 and 64 running requests, microseconds a step: planning, building the batch,
// choosing the runner, turning tokens into events (with the text of SmolLM2's tokenizer if
// ENCORE_TEST_MODELS names its folder, else of one that knows a handful of words), the engine's
// whole step, and writing each event as a server-sent event. Medians of N steps (4000), because
// other programs may be running. Every request decodes after a prompt of 512 tokens, with the
// prefix cache on. In the cold cases 32 MB are written between any two steps, so that the host
// finds its caches as a step on the same processor leaves them.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "model/model_files.h"
#include "openai/reply_writer.h"
#include "text/detokenizer.h"

namespace encore {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int32_t kPromptTokens = 512;
constexpr int32_t kPageSize = 16;
constexpr int32_t kNumRequests[] = {1, 8, 64};
constexpr double kLimitUs[] = {20.0, 0.0, 150.0};  // what is to be kept to; none for 8

double us_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::micro>(to - from).count();
}

// Samples the ids of a text, over and over, at once.
class NullRunner : public Runner {
 public:
  NullRunner(RunnerKind kind, const std::vector<int32_t>& reply) : kind_(kind), reply_(reply) {}
  RunnerKind kind() const override { return kind_; }
  RunnerCheck check(const ForwardBatch& batch, const StepOutput&) const override {
    const bool decode = batch.num_tokens() == batch.num_requests();
    if (kind_ == RunnerKind::kDecodeGraph && !decode) return {Reason::kNotDecode, 0};
    return {Reason::kNone, kind_ == RunnerKind::kEager ? 0 : batch.num_tokens()};
  }
  Result<Ticket> submit(const ForwardBatch& batch, const StepOutput& output) override {
    for (size_t row = 0; row < output.tokens.size(); ++row) {
      const auto position = static_cast<size_t>(batch.sampling[row].position);
      output.tokens[row] = reply_[(position + batch.sampling[row].seed) % reply_.size()];
      output.row_status[row] = 0;
    }
    return ++ticket_;
  }
  Status wait(Ticket, int64_t) override { return {}; }

 private:
  RunnerKind kind_;
  const std::vector<int32_t>& reply_;
  Ticket ticket_ = 0;
};

class NullKv : public KvCache {
 public:
  explicit NullKv(int32_t num_pages) : num_pages_(num_pages) {}
  KvInfo info() const override { return {num_pages_, kPageSize, 0, 0}; }
  Status copy_pages(std::span<const PageCopy>) override { return unimplemented("not needed"); }
  Status read_page(int32_t, std::span<std::byte>) const override {
    return unimplemented("not needed");
  }

 private:
  int32_t num_pages_;
};

class NullModel : public Model {
 public:
  ModelInfo info() const override { return {}; }
  Result<std::unique_ptr<KvCache>> create_kv(const KvOptions&) override { return none(); }
  Result<RunnerCapture> create_eager(KvCache&, const CaptureOptions&) override { return none(); }
  Result<RunnerCapture> capture_prefill(KvCache&, const CaptureOptions&) override { return none(); }
  Result<RunnerCapture> capture_decode(KvCache&, const CaptureOptions&) override { return none(); }
  Status set_layer_observer(LayerObserver) override { return none(); }
  Status check_guards() const override { return {}; }

 private:
  static Status none() { return unimplemented("not needed"); }
};

class WordText : public TokenText {
 public:
  std::string push(int32_t id) override { return id % 7 == 0 ? " \"word\"\n" : " word"; }
  std::string finish() override { return {}; }
};

class ModelText : public TokenText {
 public:
  explicit ModelText(const Tokenizer& tokenizer) : detokenizer_(tokenizer) {}
  std::string push(int32_t id) override { return detokenizer_.push(id); }
  std::string finish() override { return detokenizer_.finish(); }

 private:
  StreamingDetokenizer detokenizer_;
};

constexpr char kReply[] =
    "The host owns text, scheduling and page tables; a plugin owns weights, kernels and graphs.\n"
    "```cpp\nfor (int i = 0; i < 10; ++i) printf(\"%d\\n\", i);\n```\n"
    "Na\xC3\xAFve caf\xC3\xA9s, \xE8\x81\xAA\xE6\x98\x8E and \xF0\x9F\x91\xAA are text as well. ";

// Where replies come from: a tokenizer and what it makes of kReply.
struct Text {
  std::unique_ptr<Tokenizer> tokenizer;
  std::vector<int32_t> reply;
  int32_t num_valid_tokens = 64;
  TokenTextFactory make_text = [] { return std::make_unique<WordText>(); };
};

[[noreturn]] void give_up(const Status& status) {
  std::fprintf(stderr, "host_cost_bench: %s\n", status.to_string().c_str());
  std::exit(1);
}

Text open_text() {
  Text text;
  for (int32_t i = 0; i < 50; ++i) text.reply.push_back(i);
  const char* folder = std::getenv("ENCORE_TEST_MODELS");
  const std::string path =
      folder == nullptr ? "" : std::string(folder) + "/SmolLM2-135M-Instruct.Q4_1.gguf";
  if (path.empty() || !std::filesystem::exists(path)) return text;
  const Result<ModelFiles> files = open_model(path);
  if (!files.ok()) give_up(files.status());
  Result<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::from_gguf(files->text.gguf);
  if (!tokenizer.ok()) give_up(tokenizer.status());
  text.tokenizer = *std::move(tokenizer);
  Result<std::vector<int32_t>> reply = text.tokenizer->encode(kReply);
  if (!reply.ok()) give_up(reply.status());
  text.reply = *std::move(reply);
  text.num_valid_tokens = static_cast<int32_t>(text.tokenizer->vocab_size());
  text.make_text = [&tokenizer = *text.tokenizer] {
    return std::make_unique<ModelText>(tokenizer);
  };
  return text;
}

// Samples of one quantity, a step each.
class Series {
 public:
  void add(double us) { samples_.push_back(us); }
  double median() {
    const auto middle = samples_.begin() + std::ssize(samples_) / 2;
    std::nth_element(samples_.begin(), middle, samples_.end());
    return *middle;
  }

 private:
  std::vector<double> samples_;
};

struct Case {
  const char* name;
  bool ahead = false;
  bool demanding = false;  // stop strings, penalties, logit bias
  bool cold = false;
};

class Bench {
 public:
  Bench(const Text& text, int32_t num_steps) : text_(text), num_steps_(num_steps) {}

  void run(const Case& tested, int32_t num_requests, double limit_us) {
    const auto engine = make_engine(tested, num_requests);
    std::map<RequestId, size_t> index;
    std::vector<ReplyStream> streams;
    streams.reserve(num_requests);
    for (int32_t i = 0; i < num_requests; ++i) {
      const auto id = engine->add(make_request(tested, i));
      if (!id.ok()) give_up(id.status());
      index[*id] = i;
      streams.emplace_back(
          ReplyHeader{.is_chat = true, .id = "chatcmpl-0123456789", .created = 1, .model = "m"}, 1,
          [](int32_t) { return std::string(); });
    }
    Series schedule, build, submit, process, step, sse;
    std::vector<std::string> out(num_requests);
    std::vector<RequestEvent> events;
    constexpr int32_t kWarmUp = 200;
    for (int32_t i = -kWarmUp; i < num_steps_;) {
      if (tested.cold) std::fill(elsewhere_.begin(), elsewhere_.end(), static_cast<char>(i));
      const Clock::time_point start = Clock::now();
      if (auto stepped = engine->step(events); !stepped.ok()) give_up(stepped.status());
      const Clock::time_point stepped = Clock::now();
      for (const RequestEvent& event : events) {
        const size_t request = event.request - 1;
        out[request].clear();
        streams[request].add(0, event, out[request]);
      }
      const Clock::time_point written = Clock::now();
      if (std::ssize(events) != num_requests || ++i <= 0) continue;  // prefill, or warm-up
      const StepCosts costs = engine->stats().last_costs;
      schedule.add(static_cast<double>(costs.schedule_ns) / 1000.0);
      build.add(static_cast<double>(costs.build_ns) / 1000.0);
      submit.add(static_cast<double>(costs.submit_ns) / 1000.0);
      process.add(static_cast<double>(costs.process_ns) / 1000.0);
      step.add(us_between(start, stepped));
      sse.add(us_between(stepped, written));
    }
    const double total = step.median() + sse.median();
    std::printf("| %-22s | %3d | %6.2f | %6.2f | %6.2f | %6.2f | %6.2f | %6.2f | %7.2f |",
                tested.name, num_requests, schedule.median(), build.median(), submit.median(),
                process.median(), step.median(), sse.median(), total);
    const std::string limit = limit_us > 0.0 ? std::to_string(std::lround(limit_us)) : "";
    std::printf(" %5s |\n", limit.c_str());
  }

 private:
  std::unique_ptr<Engine> make_engine(const Case& tested, int32_t num_requests) {
    EngineOptions options;
    options.limits = {.max_requests = num_requests,
                      .max_tokens = 2048,
                      .max_context = kPromptTokens + num_steps_ + 1000,
                      .max_logprobs = 0,
                      .max_history = 1 << 20,
                      .max_biases = 64 * num_requests};
    options.num_valid_tokens = text_.num_valid_tokens;
    options.make_text = text_.make_text;
    options.submit_ahead = tested.ahead;
    const int32_t pages = options.limits.max_context / kPageSize + 1;
    kv_ = std::make_unique<NullKv>(pages * num_requests + 64);
    GraphsCapture graphs;
    graphs.eager.runner = std::make_shared<NullRunner>(RunnerKind::kEager, text_.reply);
    graphs.prefill.runner = std::make_shared<NullRunner>(RunnerKind::kPrefillGraph, text_.reply);
    graphs.decode.runner = std::make_shared<NullRunner>(RunnerKind::kDecodeGraph, text_.reply);
    auto engine = Engine::create(model_, *kv_, std::move(graphs), std::move(options));
    if (!engine.ok()) give_up(engine.status());
    return std::move(engine).value();
  }

  RequestOptions make_request(const Case& tested, int32_t number) const {
    RequestOptions request;
    for (int32_t i = 0; i < kPromptTokens; ++i) {
      request.prompt.push_back((number * 31 + i * 7) % text_.num_valid_tokens);
    }
    request.max_tokens = num_steps_ + 900;
    request.ignore_eos = true;
    request.sampling.temperature = 0.7F;
    request.sampling.seed = static_cast<uint64_t>(number);
    if (tested.demanding) {
      request.stop = {"never in there", "\n\n\n"};
      request.sampling.repetition_penalty = 1.1F;
      request.sampling.logit_bias = {{5, 1.0F}};
    }
    return request;
  }

  const Text& text_;
  int32_t num_steps_;
  NullModel model_;
  std::unique_ptr<NullKv> kv_;
  std::vector<char> elsewhere_ = std::vector<char>(size_t{32} << 20);
};

}  // namespace
}  // namespace encore

int main(int argc, char** argv) {
  int32_t num_steps = 4000;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.starts_with("--steps=")) num_steps = std::atoi(argument.c_str() + 8);
  }
  if (num_steps < 1) {
    std::fprintf(stderr, "usage: host_cost_bench [--steps=N], N at least 1\n");
    return 2;
  }
  const encore::Text text = encore::open_text();
  std::printf("microseconds a step, medians of %d; text: %s\n\n", num_steps,
              text.tokenizer == nullptr ? "made up" : "SmolLM2's tokenizer");
  std::printf(
      "| requests               |   n | plan   | build  | submit | events | step   | SSE    "
      "| all     | limit |\n|---|---|---|---|---|---|---|---|---|---|\n");
  encore::Bench bench(text, num_steps);
  for (const encore::Case& tested : {encore::Case{"sampled"}, encore::Case{"sampled, ahead", true},
                                     encore::Case{"stops, penalties, bias", true, true},
                                     encore::Case{"sampled, cold", true, false, true},
                                     encore::Case{"stops, ..., cold", true, true, true}}) {
    for (int32_t i = 0; i < 3; ++i) bench.run(tested, encore::kNumRequests[i], encore::kLimitUs[i]);
  }
  return 0;
}
