// Rules T: what may happen at once. Each rule repeats something small while another thread is at
// work, and compares every result with what it was alone.
#include <atomic>
#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "thread_rule_bodies.h"

namespace encore::check {
namespace {

constexpr int32_t kPromptTokens = 24;
constexpr int32_t kDecodeSteps = 4;

RunnerSetOptions thread_options() {
  RunnerSetOptions options = graph_options();
  options.kv.num_pages = 16;
  return options;
}

using StepResults = std::vector<StepResult>;

// One request from prompt to reply: by the graphs, or eagerly.
Result<StepResults> run_request(int64_t vocab_size, RunnerSet& set, bool by_graphs) {
  Runner& prefill = by_graphs ? *set.prefill->runner : *set.eager->runner;
  Runner& decode = by_graphs ? *set.decode->runner : *set.eager->runner;
  StepDriver driver(vocab_size, *set.kv);
  Request request = make_request(random_tokens(3, kPromptTokens + kDecodeSteps, vocab_size));
  const std::vector<Work> prompt = {{&request, kPromptTokens}};
  const std::vector<Work> next = {{&request, 1}};
  StepResults results;
  ENCORE_ASSIGN_OR_RETURN(results.emplace_back(), driver.run(prefill, prompt));
  for (int32_t step = 0; step < kDecodeSteps; ++step) {
    ENCORE_ASSIGN_OR_RETURN(results.emplace_back(), driver.run(decode, next));
  }
  return results;
}

Status expect_same(const StepResults& found, const StepResults& expected, const std::string& what) {
  for (size_t step = 0; step < expected.size(); ++step) {
    ENCORE_RETURN_IF_ERROR(
        same_results(found[step], expected[step], what + ", step " + std::to_string(step)));
  }
  return {};
}

// Serves one request again and again on a thread of its own, until told to stop; the first wrong
// result ends it. Starts at once; the end waits for the thread.
class Server {
 public:
  Server(int64_t vocab_size, RunnerSet& set, bool by_graphs, StepResults expected, std::string what)
      : thread_([this, vocab_size, &set, by_graphs, expected = std::move(expected),
                 what = std::move(what)](const std::stop_token& stop) {
          while (!stop.stop_requested() && status_.ok()) {
            Result<StepResults> results = run_request(vocab_size, set, by_graphs);
            status_ = results.ok() ? expect_same(*results, expected, what) : results.status();
            ++served_;
          }
          done_ = true;
        }) {}

  int32_t served() const { return served_; }
  // Whether the thread has ended of itself.
  bool has_failed() const { return done_; }
  Status stop() {
    thread_.request_stop();
    thread_.join();
    return status_;
  }

 private:
  Status status_;
  std::atomic<int32_t> served_ = 0;
  std::atomic<bool> done_ = false;
  std::jthread thread_;  // last: it uses the others
};

// Calls `work` `rounds` times at least, and until `server` has served as many requests.
template <typename Work>
Status beside(Server& server, int32_t rounds, const Work& work) {
  Status status;
  for (int32_t round = 0;
       status.ok() && !server.has_failed() && (round < rounds || server.served() < rounds);
       ++round) {
    status = work();
  }
  const Status served = server.stop();
  return status.ok() ? served : status;
}

int32_t rounds_of(const Rig& rig) { return rig.context.quick ? 10 : 100; }

// What a question about the backend is answered with, in one text.
std::string all_answers(Backend& backend, int32_t device) {
  const ProbeResult probe = backend.probe();
  const Result<DeviceInfo> info = backend.device_info(device);
  std::string text = probe.usable ? "usable" : "unusable: " + probe.reason;
  text += ", " + std::to_string(backend.device_count()) + " devices, ";
  if (info.ok()) {
    text.append(info->id + " ").append(info->name + " ").append(info->architecture + " ");
    text += std::to_string(info->capabilities);
  } else {
    text += info.status().to_string();
  }
  for (const OptionSchema& option : backend.option_schema()) text.append(", ").append(option.key);
  for (const auto& [name, value] : backend.stats())
    text.append(", ").append(name);  // values may change
  return text;
}

}  // namespace

Status runners_of_two_caches_work_at_once(Rig& rig) {
  const int64_t vocab_size = rig.vocab_size();
  ENCORE_ASSIGN_OR_RETURN(RunnerSet first, make_runner_set(*rig.model, thread_options()));
  ENCORE_ASSIGN_OR_RETURN(RunnerSet second, make_runner_set(*rig.model, thread_options()));
  for (const bool eager_beside : {false, true}) {
    ENCORE_ASSIGN_OR_RETURN(const StepResults beside_alone,
                            run_request(vocab_size, first, !eager_beside));
    ENCORE_ASSIGN_OR_RETURN(const StepResults alone, run_request(vocab_size, second, true));
    const std::string what =
        eager_beside ? "graphs beside an eager runner" : "graphs beside graphs";
    Server server(vocab_size, first, !eager_beside, beside_alone, what + ", the other thread");
    ENCORE_RETURN_IF_ERROR(beside(server, rounds_of(rig), [&]() -> Status {
      ENCORE_ASSIGN_OR_RETURN(const StepResults results, run_request(vocab_size, second, true));
      return expect_same(results, alone, what);
    }));
  }
  return {};
}

Status another_thread_may_wait(Rig& rig) {
  ENCORE_ASSIGN_OR_RETURN(RunnerSet set, make_runner_set(*rig.model, thread_options()));
  StepDriver driver(rig.vocab_size(), *set.kv);
  Request request = make_request(random_tokens(3, kPromptTokens, rig.vocab_size()));
  for (Runner* runner : {set.eager->runner.get(), set.prefill->runner.get()}) {
    request.cached = 0;
    const std::vector<Work> work = {{&request, kPromptTokens}};
    ENCORE_ASSIGN_OR_RETURN(const StepResult alone, driver.run(*runner, work));
    request.cached = 0;
    ENCORE_ASSIGN_OR_RETURN(const OwnedBatch batch, driver.batch_of(work));
    for (int32_t round = 0; round < rounds_of(rig); ++round) {
      OwnedOutput output(1, rig.vocab_size(), {});
      ENCORE_ASSIGN_OR_RETURN(const Ticket ticket, runner->submit(batch.view(), output.view()));
      Status waited;
      std::jthread([&] { waited = runner->wait(ticket, -1); }).join();
      ENCORE_RETURN_IF_ERROR(waited);
      ENCORE_RETURN_IF_ERROR(same_results(output.result(), alone, "waited for by another thread"));
    }
  }
  return {};
}

Status capture_while_another_runner_works(Rig& rig) {
  const int64_t vocab_size = rig.vocab_size();
  ENCORE_ASSIGN_OR_RETURN(RunnerSet working, make_runner_set(*rig.model, thread_options()));
  ENCORE_ASSIGN_OR_RETURN(const StepResults alone, run_request(vocab_size, working, true));
  Server server(vocab_size, working, true, alone, "a step while another cache's runners are made");
  constexpr size_t kKept = 8;
  std::deque<RunnerSet> captured;
  ENCORE_RETURN_IF_ERROR(beside(server, rounds_of(rig), [&]() -> Status {
    ENCORE_ASSIGN_OR_RETURN(captured.emplace_back(), make_runner_set(*rig.model, thread_options()));
    if (captured.size() > kKept) captured.pop_front();
    return {};
  }));
  for (RunnerSet& set : captured) {
    ENCORE_ASSIGN_OR_RETURN(const StepResults results, run_request(vocab_size, set, true));
    ENCORE_RETURN_IF_ERROR(expect_same(results, alone, "runners captured while others worked"));
  }
  return {};
}

Status questions_from_many_threads(Rig& rig) {
  constexpr size_t kThreads = 4;
  Backend& backend = rig.session.backend();
  const int32_t device = rig.session.device();
  const std::string alone = all_answers(backend, device);
  std::vector<std::string> different(kThreads);
  {
    std::vector<std::jthread> threads;
    threads.reserve(kThreads);
    for (std::string& wrong : different) {
      threads.emplace_back([&backend, &wrong, &alone, device, rounds = 5 * rounds_of(rig)] {
        for (int32_t round = 0; round < rounds && wrong.empty(); ++round) {
          std::string answers = all_answers(backend, device);
          if (answers != alone) wrong = std::move(answers);
        }
      });
    }
  }
  for (const std::string& wrong : different) {
    if (wrong.empty()) continue;
    return violation(std::string("asked by several threads at once the backend says '")
                         .append(wrong)
                         .append("', alone '")
                         .append(alone)
                         .append("'"));
  }
  return {};
}

Status loading_while_another_model_decodes(Rig& rig) {
  const int64_t vocab_size = rig.vocab_size();
  ENCORE_ASSIGN_OR_RETURN(RunnerSet working, make_runner_set(*rig.model, thread_options()));
  ENCORE_ASSIGN_OR_RETURN(const StepResults alone, run_request(vocab_size, working, true));
  const RandomModel other = random_model(Family::kLlama, 77, DType::kF32);
  Server server(vocab_size, working, true, alone, "a step while another model is loaded");
  return beside(server, rounds_of(rig), [&]() -> Status {
    ENCORE_ASSIGN_OR_RETURN(const auto model, rig.session.load(other.spec, *other.weights));
    return {};
  });
}

}  // namespace encore::check
