// The lowering's ops on the CPU: each is one or two kernel calls, run now or added to a plan.
#pragma once

#include <cstdint>
#include <memory>

#include "encore/lowering/device.h"
#include "encore/lowering/ops.h"
#include "host_memory.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/cpu_features.h"
#include "kernels/cpu/kv_layout.h"
#include "kernels/cpu/norm.h"
#include "kernels/cpu/rope.h"
#include "kernels/cpu/sample.h"
#include "plan.h"
#include "rank_meeting.h"
#include "step_trace.h"
#include "thread_team.h"
#include "weights.h"

namespace encore::cpu {

// What AttentionLayer::kv points to.
struct KvDescription {
  kernels::KvLayout layout;
  std::byte* pages = nullptr;
  int32_t num_pages = 0;  // the sink included
  int64_t layer_bytes() const { return num_pages * layout.page_bytes(); }
};

// Which rank of a model these ops are for. No meeting: the only one.
struct RankPlace {
  std::shared_ptr<RankMeeting> meeting;
  int32_t rank = 0;
};

class CpuOps final : public lowering::Ops {
 public:
  CpuOps(ThreadTeam& team, kernels::IsaLevel level, RankPlace place);

  const WeightLoader& loader() const { return loader_; }
  // Errors: a rank did not come to one of the collectives so far.
  Status meeting_status() const {
    return place_.meeting == nullptr ? Status() : place_.meeting->status();
  }

  // Workspace for steps of that size; see lowering::Device::reserve_workspace.
  Result<int64_t> reserve_workspace(const ModelSpec& spec,
                                    const lowering::WorkspaceRequest& request,
                                    int64_t* added_bytes);
  void fill_workspace(uint8_t value);

  // While a plan is set, ops are added to it instead of run.
  void record_into(Plan* plan) { plan_ = plan; }
  // While a trace is set, ops that run are timed.
  void trace_into(StepTrace* trace) { trace_ = trace; }
  void label(lowering::OpLabel label) override { label_ = label; }

  Result<std::unique_ptr<lowering::Weight>> load_linear(const WeightSource& source,
                                                        std::span<const lowering::LinearPart> parts,
                                                        lowering::Epilogue epilogue) override;
  Result<std::unique_ptr<lowering::Weight>> load_embedding(const WeightSource& source,
                                                           size_t weight) override;
  Result<std::unique_ptr<lowering::Weight>> load_norm(const WeightSource& source,
                                                      size_t weight) override;
  Result<std::unique_ptr<lowering::Weight>> load_rope(const ModelSpec& spec) override;

  Status embed(const lowering::Weight& table, const lowering::StepInputs& step,
               const lowering::StepResults& results, lowering::Matrix y) override;
  Status plan_attention(const lowering::AttentionLayer& layer,
                        const lowering::StepInputs& step) override;
  Status rms_norm(lowering::Matrix x, const lowering::Weight& weight, float eps,
                  lowering::Rows rows, lowering::Matrix y) override;
  Status linear(lowering::Matrix x, const lowering::Weight& weight, lowering::Epilogue epilogue,
                lowering::Rows rows, lowering::Matrix y) override;
  Status rope_kv_write(lowering::Matrix qkv, const lowering::AttentionLayer& layer,
                       const lowering::StepInputs& step) override;
  Status attention(lowering::Matrix qkv, const lowering::AttentionLayer& layer,
                   const lowering::StepInputs& step, lowering::Matrix y) override;
  Status gather_logit_rows(lowering::Matrix x, const lowering::StepInputs& step,
                           lowering::Matrix y) override;
  Status all_reduce(lowering::Matrix x, lowering::Rows rows) override;
  Status all_gather(lowering::Matrix part, lowering::Rows rows, lowering::Matrix whole) override;
  Status sample(lowering::Matrix logits, const lowering::StepInputs& step,
                const lowering::StepResults& results) override;

 private:
  // Offsets into the workspace of what steps keep between ops.
  struct Workspace {
    std::unique_ptr<MappedBlock> block;
    std::byte* linear = nullptr;
    float* attention = nullptr;
    int64_t attention_bytes = 0;
    float* cos_sin = nullptr;
    int32_t* slots = nullptr;
  };

  template <typename Args>
  void emit(Kernel<Args> kernel, const Args& args) {
    if (plan_ != nullptr) {
      plan_->add(kernel, args, label_);
    } else if (trace_ != nullptr) {
      const PlanNode node = make_node(kernel, &args, label_);
      trace_->run(team_, node);
    } else {
      team_.run(kernel, args);
    }
  }
  kernels::KvPages layer_pages(const lowering::AttentionLayer& layer) const;

  ThreadTeam& team_;
  kernels::IsaLevel level_;
  RankPlace place_;
  WeightLoader loader_;
  kernels::RmsNormKernel rms_norm_;
  kernels::RopeKvKernel rope_kv_;
  kernels::AttentionKernel attention_;
  kernels::SampleKernel sample_;
  std::vector<Workspace> workspaces_;  // the last one is in use; earlier ones serve older plans
  int64_t workspace_needed_bytes_ = 0;
  StepTrace* trace_ = nullptr;
  lowering::OpLabel label_;
  Plan* plan_ = nullptr;
};

}  // namespace encore::cpu
