// Defects of errors: what should be refused is not, or not in the way that the ABI asks for.
#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "defect_families.h"
#include "defective_runner.h"

namespace encore::defects {
namespace {

// A failed init leaves the plugin as if it had succeeded.
class FailedInitSticks final : public Defect {
 public:
  Status init(Backend& backend, const OptionValues& options) override {
    if (failed_) return failed_precondition("the backend is initialised already");
    Status status = Defect::init(backend, options);
    failed_ = !status.ok();
    return status;
  }

 private:
  std::atomic<bool> failed_ = false;
};

class EveryModelAccepted final : public Defect {
 public:
  Status check_model(const Backend& backend, int32_t device, const ModelSpec& spec,
                     std::span<const WeightInfo> weights) override {
    const Status status = Defect::check_model(backend, device, spec, weights);
    return device == 0 ? Status() : status;
  }
};

class ArchitectureIgnored final : public Defect {
 public:
  Result<std::unique_ptr<Model>> load_model(Backend& backend, int32_t device, const ModelSpec& spec,
                                            const WeightSource& weights,
                                            const LoadOptions& options) override {
    ModelSpec known = spec;
    known.architecture = "llama";
    return Defect::load_model(backend, device, known, weights, options);
  }
};

class CancelIgnored final : public Defect {
 public:
  Result<std::unique_ptr<Model>> load_model(Backend& backend, int32_t device, const ModelSpec& spec,
                                            const WeightSource& weights,
                                            const LoadOptions& options) override {
    LoadOptions deaf = options;
    if (options.progress) {
      deaf.progress = [&options](int64_t done, int64_t total) {
        static_cast<void>(options.progress(done, total));
        return true;
      };
    }
    return Defect::load_model(backend, device, spec, weights, deaf);
  }
};

// What cannot be read is taken as zero.
class ReadFaultIgnored final : public Defect {
  class DeafWeights final : public WeightSource {
   public:
    explicit DeafWeights(const WeightSource& sound) : sound_(sound) {}
    std::span<const WeightInfo> weights() const override { return sound_.weights(); }
    Status read(size_t index, int64_t offset, std::span<std::byte> destination) const override {
      if (sound_.read(index, offset, destination).ok()) return {};
      std::fill(destination.begin(), destination.end(), std::byte{0});
      return {};
    }
    const std::byte* map(size_t index) const override { return sound_.map(index); }
    void release(size_t index) const override { sound_.release(index); }

   private:
    const WeightSource& sound_;
  };

 public:
  Result<std::unique_ptr<Model>> load_model(Backend& backend, int32_t device, const ModelSpec& spec,
                                            const WeightSource& weights,
                                            const LoadOptions& options) override {
    const std::lock_guard lock(mutex_);
    // As long as the models that read them: for ever.
    const WeightSource& deaf = *kept_.emplace_back(std::make_unique<DeafWeights>(weights));
    return Defect::load_model(backend, device, spec, deaf, options);
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<DeafWeights>> kept_;
};

Status as_internal(const Status& status) {
  if (status.code() != StatusCode::kOutOfMemory) return status;
  return internal_error(status.message());
}

class KvMemoryCodeWrong final : public Defect {
 public:
  Result<std::unique_ptr<KvCache>> create_kv(Model& model, const KvOptions& options) override {
    auto kv = Defect::create_kv(model, options);
    if (!kv.ok()) return as_internal(kv.status());
    return kv;
  }
};

class RunnerMemoryCodeWrong final : public Defect {
 public:
  Result<RunnerCapture> capture(Model& model, const RunnerFacts& facts) override {
    auto capture = Defect::capture(model, facts);
    if (!capture.ok()) return as_internal(capture.status());
    return capture;
  }
};

template <typename RunnerT>
class WrapsRunners final : public Defect {
 public:
  std::unique_ptr<Runner> wrap(std::unique_ptr<Runner> runner, const RunnerFacts& facts) override {
    return std::make_unique<RunnerT>(std::move(runner), facts);
  }
};

// A wait that runs out of time gives the ticket up.
class TicketLost final : public ForwardingRunner {
 public:
  using ForwardingRunner::ForwardingRunner;
  Status wait(Ticket ticket, int64_t timeout_us) override {
    if (lost_ && ticket == lost_ticket_) return not_found("there is no such ticket");
    ENCORE_RETURN_IF_ERROR(ForwardingRunner::wait(ticket, timeout_us == 0 ? -1 : timeout_us));
    if (timeout_us != 0) return {};
    lost_ = true;
    lost_ticket_ = ticket;
    return deadline_exceeded("the step has not ended");
  }

 private:
  bool lost_ = false;
  Ticket lost_ticket_ = 0;
};

class FieldNotNamed final : public ForwardingRunner {
 public:
  using ForwardingRunner::ForwardingRunner;
  Result<Ticket> submit(const ForwardBatch& batch, const StepOutput& output) override {
    auto ticket = ForwardingRunner::submit(batch, output);
    if (ticket.ok() || ticket.status().code() != StatusCode::kInvalidArgument) return ticket;
    return invalid_argument("the batch is wrong");
  }
};

// A batch is looked at only after its pages have been touched.
class RefusedBatchWrites final : public ForwardingRunner {
 public:
  using ForwardingRunner::ForwardingRunner;
  Result<Ticket> submit(const ForwardBatch& batch, const StepOutput& output) override {
    auto ticket = ForwardingRunner::submit(batch, output);
    if (ticket.ok()) return ticket;
    const PageCopy copy = {facts().kv->info().num_pages - 1, 0};
    static_cast<void>(facts().kv->copy_pages({&copy, 1}));
    return ticket;
  }
};

class MissingPageRead final : public Defect {
 public:
  Status read_page(const KvCache& kv, int32_t page, std::span<std::byte> destination) override {
    return Defect::read_page(kv, std::clamp(page, 0, kv.info().num_pages - 1), destination);
  }
};

// Every device is the first one.
encore_backend_table sound;
void any_device_accepted(encore_backend_table* table, const encore_host_info* host) {
  static_cast<void>(host);
  sound = *table;
  table->device_memory = [](encore_backend* backend, int32_t device, encore_device_memory* memory,
                            encore_error* error) {
    static_cast<void>(device);
    return sound.device_memory(backend, 0, memory, error);
  };
}

// The first page of a list is looked at before the list's length.
void empty_list_followed(encore_backend_table* table, const encore_host_info* host) {
  static_cast<void>(host);
  sound = *table;
  table->kv_copy = [](encore_kv* kv, const encore_page_copy* copies, uint64_t count,
                      uint64_t stride, encore_error* error) {
    const volatile int32_t first = copies->source;
    static_cast<void>(first);
    return sound.kv_copy(kv, copies, count, stride, error);
  };
}

}  // namespace

std::span<const DefectEntry> error_defects() {
  static const DefectEntry entries[] = {
      {"empty_list_followed", nullptr, empty_list_followed},
      {"any_device_accepted", nullptr, any_device_accepted},
      defect<FailedInitSticks>("failed_init_sticks"),
      defect<EveryModelAccepted>("every_model_accepted"),
      defect<ArchitectureIgnored>("architecture_ignored"),
      defect<CancelIgnored>("cancel_ignored"),
      defect<ReadFaultIgnored>("read_fault_ignored"),
      defect<KvMemoryCodeWrong>("kv_memory_code_wrong"),
      defect<RunnerMemoryCodeWrong>("runner_memory_code_wrong"),
      defect<WrapsRunners<TicketLost>>("ticket_lost"),
      defect<WrapsRunners<FieldNotNamed>>("field_not_named"),
      defect<WrapsRunners<RefusedBatchWrites>>("refused_batch_writes"),
      defect<MissingPageRead>("missing_page_read"),
  };
  return entries;
}

}  // namespace encore::defects
