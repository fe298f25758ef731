// Rules E on requests for more memory than there is.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

#include "error_rule_bodies.h"
#include "plugin_session.h"
#include "random_model.h"
#include "runner_set.h"
#include "step_driver.h"

namespace encore::check {
namespace {

constexpr int64_t kRoomBytes = int64_t{2} << 30;     // left to the process by the limit
constexpr int64_t kTooManyBytes = int64_t{8} << 40;  // more than any device has

// Limits this process's address space, so that a large request fails at once whatever the
// machine's memory and its policy of overcommitting.
void limit_address_space() {
  std::ifstream file("/proc/self/statm");
  int64_t pages = 0;
  file >> pages;
  const auto bytes = static_cast<rlim_t>(pages * ::sysconf(_SC_PAGESIZE) + kRoomBytes);
  const struct rlimit limit = {bytes, RLIM_INFINITY};
  ::setrlimit(RLIMIT_AS, &limit);
}

// One step of a sound request, to see that the model goes on.
Status run_a_step(Model& model, int64_t vocab_size) {
  ENCORE_ASSIGN_OR_RETURN(RunnerSet set, make_runner_set(model, small_options()));
  StepDriver driver(vocab_size, *set.kv);
  Request request = make_request({1, 2, 3});
  ENCORE_RETURN_IF_ERROR(driver.reserve(request, 3));
  const Work work{&request, 3, true};
  return driver.run(*set.eager->runner, {&work, 1}).status();
}

template <typename Ask>
Outcome refused_for_memory(const CheckContext& context, const char* what, Ask ask) {
  PluginSession session(context);
  if (!session.ok()) return session.outcome();
  const RandomModel small = random_model(Family::kLlama, 7, DType::kF32);
  const auto model = session.load(small.spec, *small.weights);
  if (!model.ok()) return outcome_of(model.status());
  // Memory of a device of its own has a size that no request below can fit into.
  if (!session.has(kCapabilityDeviceMemory)) limit_address_space();
  const Status status = ask(**model);
  if (status.ok()) return fail(std::string(what) + " was granted");
  if (status.code() != StatusCode::kOutOfMemory) {
    return fail(std::string(what) + " failed with another code than out_of_memory, by which a " +
                "host knows that less might do: " + status.to_string());
  }
  const Status after = run_a_step(**model, small.spec.vocab_size);
  if (after.ok()) return pass();
  return fail(std::string("after ") + what +
              " was refused, a small step fails: " + after.to_string());
}

}  // namespace

Outcome large_kv_cache_is_refused(const CheckContext& context) {
  return refused_for_memory(context, "a KV cache of 8 TiB", [](Model& model) -> Status {
    int64_t page_bytes = 0;
    KvOptions options;
    options.num_pages = 4;
    options.page_size = 64;
    {
      ENCORE_ASSIGN_OR_RETURN(const auto kv, model.create_kv(options));
      page_bytes = std::max<int64_t>(1, kv->info().page_bytes);
    }
    options.num_pages = static_cast<int32_t>(
        std::min<int64_t>(kTooManyBytes / page_bytes, std::numeric_limits<int32_t>::max()));
    return model.create_kv(options).status();
  });
}

Outcome large_runner_is_refused(const CheckContext& context) {
  return refused_for_memory(context, "a runner for a billion tokens", [](Model& model) -> Status {
    RunnerSetOptions options = small_options();
    options.capture.limits.max_tokens = 1'000'000'000;
    return make_runner_set(model, options).status();
  });
}

}  // namespace encore::check
