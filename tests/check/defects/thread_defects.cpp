// Defects that need a second thread to show.
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <thread>

#include "defect_families.h"
#include "defective_runner.h"

namespace encore::defects {
namespace {

constexpr auto kOverlap = std::chrono::milliseconds(2);  // long enough for another thread to come

// Steps of two threads at once share a buffer that each should have had to itself.
class RunnersShareABuffer final : public Defect {
  class SharingRunner : public SpoilingRunner {
   public:
    SharingRunner(std::unique_ptr<Runner> sound, RunnerFacts facts, std::atomic<int>& working)
        : SpoilingRunner(std::move(sound), std::move(facts)), working_(working) {}

   protected:
    bool spoils(const ForwardBatch& batch, int32_t bucket) override {
      static_cast<void>(batch);
      static_cast<void>(bucket);
      const bool shared = working_.fetch_add(1) > 0;
      std::this_thread::sleep_for(kOverlap);
      --working_;
      return shared;
    }

   private:
    std::atomic<int>& working_;
  };

 public:
  std::unique_ptr<Runner> wrap(std::unique_ptr<Runner> runner, const RunnerFacts& facts) override {
    if (facts.kind != RunnerKind::kDecodeGraph) return runner;
    return std::make_unique<SharingRunner>(std::move(runner), facts, working_);
  }

 private:
  std::atomic<int> working_ = 0;
};

// Results are kept by thread, so a wait from another one finds somebody else's.
class ResultsByThread : public SpoilingRunner {
 public:
  using SpoilingRunner::SpoilingRunner;

 protected:
  bool spoils(const ForwardBatch& batch, int32_t bucket) override {
    static_cast<void>(batch);
    static_cast<void>(bucket);
    submitter_ = std::this_thread::get_id();
    return false;
  }
  bool wait_spoils() override { return std::this_thread::get_id() != submitter_; }

 private:
  std::thread::id submitter_;
};
class ResultsOfTheSubmitter final : public Defect {
 public:
  std::unique_ptr<Runner> wrap(std::unique_ptr<Runner> runner, const RunnerFacts& facts) override {
    return std::make_unique<ResultsByThread>(std::move(runner), facts);
  }
};

// Whether something is going on, for runners to be spoilt by it.
class Spoilt : public SpoilingRunner {
 public:
  Spoilt(std::unique_ptr<Runner> sound, RunnerFacts facts, const std::atomic<int>& going_on)
      : SpoilingRunner(std::move(sound), std::move(facts)), going_on_(going_on) {}

 protected:
  bool spoils(const ForwardBatch& batch, int32_t bucket) override {
    static_cast<void>(batch);
    static_cast<void>(bucket);
    return going_on_ > 0;
  }

 private:
  const std::atomic<int>& going_on_;
};

// Counts for as long as it lives, and some time more.
class GoingOn {
 public:
  explicit GoingOn(std::atomic<int>& count) : count_(count) { ++count_; }
  ~GoingOn() {
    std::this_thread::sleep_for(kOverlap);
    --count_;
  }
  GoingOn(const GoingOn&) = delete;
  GoingOn& operator=(const GoingOn&) = delete;

 private:
  std::atomic<int>& count_;
};

// A step that comes while another cache's runner is captured becomes part of that graph.
class CaptureTakesSteps final : public Defect {
 public:
  Result<RunnerCapture> capture(Model& model, const RunnerFacts& facts) override {
    const GoingOn capturing(capturing_);
    return Defect::capture(model, facts);
  }
  std::unique_ptr<Runner> wrap(std::unique_ptr<Runner> runner, const RunnerFacts& facts) override {
    return std::make_unique<Spoilt>(std::move(runner), facts, capturing_);
  }

 private:
  std::atomic<int> capturing_ = 0;
};

// Steps read weights that another model's loading is just replacing.
class LoadingDisturbs final : public Defect {
 public:
  Result<std::unique_ptr<Model>> load_model(Backend& backend, int32_t device, const ModelSpec& spec,
                                            const WeightSource& weights,
                                            const LoadOptions& options) override {
    const GoingOn loading(loading_);
    return Defect::load_model(backend, device, spec, weights, options);
  }
  std::unique_ptr<Runner> wrap(std::unique_ptr<Runner> runner, const RunnerFacts& facts) override {
    return std::make_unique<Spoilt>(std::move(runner), facts, loading_);
  }

 private:
  std::atomic<int> loading_ = 0;
};

// Two threads that ask at once get each other's half of the answer.
class InfoIsShared final : public Defect {
 public:
  Result<DeviceInfo> device_info(const Backend& backend, int32_t device) override {
    const bool alone = asking_.fetch_add(1) == 0;
    std::this_thread::sleep_for(kOverlap);
    Result<DeviceInfo> info = backend.device_info(device);
    --asking_;
    if (info.ok() && !alone) info->name = "half of " + info->name;
    return info;
  }

 private:
  std::atomic<int> asking_ = 0;
};

}  // namespace

std::span<const DefectEntry> thread_defects() {
  static const DefectEntry entries[] = {
      defect<RunnersShareABuffer>("runners_share_a_buffer"),
      defect<ResultsOfTheSubmitter>("results_of_the_submitter"),
      defect<CaptureTakesSteps>("capture_takes_steps"),
      defect<LoadingDisturbs>("loading_disturbs"),
      defect<InfoIsShared>("info_is_shared"),
  };
  return entries;
}

}  // namespace encore::defects
