// Defects of loading, initialising and ending.
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "defect_families.h"

namespace encore::defects {
namespace {

void* sleep_for_ever(void* /*unused*/) {
  for (;;) ::pause();
}

void start_sleeper() {
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, size_t{64} << 10);
  ::pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_t thread{};
  ::pthread_create(&thread, &attributes, sleep_for_ever, nullptr);
  ::pthread_attr_destroy(&attributes);
}

// The kit checks with devices hidden, too.
void reason_empty(encore_backend_table* table, const encore_host_info* host) {
  static_cast<void>(host);
  static auto* const sound = table->probe;
  table->probe = [](encore_backend* backend, encore_probe_result* result,
                    encore_error* error) -> encore_status {
    const encore_status status = sound(backend, result, error);
    const char* const devices = std::getenv("CUDA_VISIBLE_DEVICES");
    if (devices == nullptr || *devices != '\0') return status;
    result->usable = 0;
    result->reason_size = 0;
    return status;
  };
}

// The entry function starts a thread.
void thread_at_entry(encore_backend_table* table, const encore_host_info* host) {
  static_cast<void>(table);
  static_cast<void>(host);
  static std::atomic<bool> started = false;
  if (!started.exchange(true)) start_sleeper();
}

// From its second call on the entry function leaves out an optional function.
void changing_table(encore_backend_table* table, const encore_host_info* host) {
  static_cast<void>(host);
  static std::atomic<int32_t> calls = 0;
  if (++calls > 1) table->selftest = nullptr;
}

class InitRefused final : public Defect {
 public:
  Status init(Backend& backend, const OptionValues& options) override {
    static_cast<void>(backend);
    static_cast<void>(options);
    return unavailable("it is not a good day");
  }
};

// Plugins of the same make share a name in the process, and what it stands for goes with the one
// that owns it: the first that came, or the last.
template <bool kLastOwns>
class SharesName final : public Defect {
 public:
  Status init(Backend& backend, const OptionValues& options) override {
    if (kLastOwns || std::getenv(kName) == nullptr) ::setenv(kName, own_name().c_str(), 1);
    return Defect::init(backend, options);
  }
  void shutdown(Backend& backend) override {
    const char* const owner = std::getenv(kName);
    if (owner != nullptr && owner == own_name()) ::unsetenv(kName);
    Defect::shutdown(backend);
  }
  Result<std::unique_ptr<Model>> load_model(Backend& backend, int32_t device, const ModelSpec& spec,
                                            const WeightSource& weights,
                                            const LoadOptions& options) override {
    if (std::getenv(kName) == nullptr) return internal_error("the shared memory is gone");
    return Defect::load_model(backend, device, spec, weights, options);
  }

 private:
  static constexpr const char* kName = "ENCORE_TEST_SHARED_NAME";

  std::string own_name() const { return std::to_string(reinterpret_cast<uintptr_t>(this)); }
};

class ThreadLeaked final : public Defect {
 public:
  Status init(Backend& backend, const OptionValues& options) override {
    start_sleeper();
    return Defect::init(backend, options);
  }
};

class DescriptorLeaked final : public Defect {
 public:
  Status init(Backend& backend, const OptionValues& options) override {
    static_cast<void>(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    return Defect::init(backend, options);
  }
};

class MemoryLeaked final : public Defect {
 public:
  Status init(Backend& backend, const OptionValues& options) override {
    constexpr size_t kBytes = size_t{256} << 10;
    void* const lost = std::malloc(kBytes);
    if (lost != nullptr) std::memset(lost, 1, kBytes);
    kept_ = lost;
    return Defect::init(backend, options);
  }

 private:
  std::atomic<void*> kept_ = nullptr;
};

// Works in its first life only.
class WorksOnce final : public Defect {
 public:
  Status init(Backend& backend, const OptionValues& options) override {
    ++inits_;
    return Defect::init(backend, options);
  }
  Result<std::unique_ptr<Model>> load_model(Backend& backend, int32_t device, const ModelSpec& spec,
                                            const WeightSource& weights,
                                            const LoadOptions& options) override {
    if (inits_ > 1) return internal_error("the allocator has been destroyed");
    return Defect::load_model(backend, device, spec, weights, options);
  }

 private:
  std::atomic<int32_t> inits_ = 0;
};

class PrintsGreeting final : public Defect {
 public:
  Status init(Backend& backend, const OptionValues& options) override {
    std::puts("Welcome!");
    return Defect::init(backend, options);
  }
};

// Once a model has been loaded, the process cannot end in order.
class AbortsAtExit final : public Defect {
 public:
  Result<std::unique_ptr<Model>> load_model(Backend& backend, int32_t device, const ModelSpec& spec,
                                            const WeightSource& weights,
                                            const LoadOptions& options) override {
    std::atexit([] { std::abort(); });
    return Defect::load_model(backend, device, spec, weights, options);
  }
};

}  // namespace

std::span<const DefectEntry> load_defects() {
  static const DefectEntry entries[] = {
      {"reason_empty", nullptr, reason_empty},
      defect<InitRefused>("init_refused"),
      defect<SharesName<false>>("first_owns_the_name"),
      defect<SharesName<true>>("last_owns_the_name"),
      {"thread_at_entry", nullptr, thread_at_entry},
      {"changing_table", nullptr, changing_table},
      defect<ThreadLeaked>("thread_leaked"),
      defect<DescriptorLeaked>("descriptor_leaked"),
      defect<MemoryLeaked>("memory_leaked"),
      defect<WorksOnce>("works_once"),
      defect<PrintsGreeting>("prints_greeting"),
      defect<AbortsAtExit>("aborts_at_exit"),
  };
  return entries;
}

}  // namespace encore::defects
