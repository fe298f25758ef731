// Kernels in which ranks meet. They are recorded into plans as any other kernel.
#pragma once

#include <cstdint>

#include "kernels/cpu/worker.h"
#include "rank_meeting.h"

namespace encore::cpu {

// The rank shows `data` to the others and waits for theirs: before they are read, and again before
// anybody may write over them.
struct MeetArgs {
  RankMeeting* meeting = nullptr;
  int32_t rank = 0;
  void* data = nullptr;
};
void meet(const MeetArgs& args, const kernels::Worker& worker);

// Between two meetings at `x`. Each rank adds up its share of the elements, in the order of the
// ranks, and writes it into everyone's x: all get the same bits.
//   x  [num_rows, columns] f32
struct SumRanksArgs {
  RankMeeting* meeting = nullptr;
  int32_t rank = 0;
  const int32_t* num_rows = nullptr;
  int32_t columns = 0;
};
void sum_ranks(const SumRanksArgs& args, const kernels::Worker& worker);

// Between two meetings at the ranks' parts: row by row, all ranks' parts side by side.
//   part   [num_rows, columns] f32, shown at the meeting
//   whole  [num_rows, columns * ranks] f32
struct GatherRanksArgs {
  RankMeeting* meeting = nullptr;
  const int32_t* num_rows = nullptr;
  int32_t columns = 0;
  float* whole = nullptr;
};
void gather_ranks(const GatherRanksArgs& args, const kernels::Worker& worker);

}  // namespace encore::cpu
