#include "peer_collectives.h"

#include "gpu_status.h"

namespace encore::gpu {
namespace {

using lowering::Matrix;
using lowering::Rows;

Status launched(LaunchError error, const char* what) {
  return gpu_status(static_cast<gpuError_t>(error), what);
}

}  // namespace

bool PeerCollectives::is_short(Matrix x) const {
  return int64_t{x.rows} * x.columns * 2 <= RankPeers::one_shot_bytes(own_.num_ranks);
}

PeerSumArgs PeerCollectives::sum_of(Matrix x, Rows rows) const {
  return {own_, {rows.live, x.rows}, x.data, x.columns};
}

Status PeerCollectives::all_reduce(Matrix x, Rows rows) {
  if (!is_short(x)) return LibraryCollectives::all_reduce(x, rows);
  return launched(peer_all_reduce(sum_of(x, rows), launch_), "summing over ranks");
}

Status PeerCollectives::all_reduce_norm(Matrix x, Rows rows, const void* norm, float eps,
                                        Matrix normed) {
  const PeerSumNormArgs args{sum_of(x, rows), norm, normed.data, eps};
  return launched(peer_all_reduce_norm(args, launch_), "summing over ranks");
}

Status PeerCollectives::all_gather(Matrix part, Rows rows, Matrix whole) {
  const PeerGatherArgs args{own_, {rows.live, part.rows}, part.data, whole.data, part.columns};
  return launched(peer_all_gather(args, launch_), "gathering logits from the ranks");
}

}  // namespace encore::gpu
