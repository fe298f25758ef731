// Ranks of one model on the GPUs of this host.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "device.h"
#include "encore/lowering/parallel_model.h"
#include "rank_peers.h"

namespace encore::gpu {

class GpuRanks final : public lowering::RankGroup {
 public:
  using MakeDevice = std::function<Result<std::unique_ptr<GpuDevice>>(int32_t rank)>;

  // `make_device` is called from the ranks' threads.
  GpuRanks(std::shared_ptr<RankPeers> peers, bool overlap, MakeDevice make_device)
      : peers_(std::move(peers)), overlap_(overlap), make_device_(std::move(make_device)) {}

  int32_t size() const override { return peers_->num_ranks(); }
  Result<std::unique_ptr<lowering::Device>> make_device(int32_t rank) override {
    ENCORE_ASSIGN_OR_RETURN(std::unique_ptr<GpuDevice> device, make_device_(rank));
    ENCORE_ASSIGN_OR_RETURN(auto collectives,
                            RankPeers::collectives(peers_, rank, device->stream(), overlap_));
    device->meet_through(std::move(collectives));
    return std::unique_ptr<lowering::Device>(std::move(device));
  }
  void abort() override { peers_->abort(); }

 private:
  std::shared_ptr<RankPeers> peers_;
  bool overlap_;
  MakeDevice make_device_;
};

}  // namespace encore::gpu
