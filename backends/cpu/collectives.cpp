#include "collectives.h"

#include <algorithm>

namespace encore::cpu {

void meet(const MeetArgs& args, const kernels::Worker& worker) {
  // The rest of the team waits at the end of the node. Whether the ranks met is looked up by those
  // who depend on it.
  if (worker.index == 0) static_cast<void>(args.meeting->arrive(args.rank, args.data));
}

void sum_ranks(const SumRanksArgs& args, const kernels::Worker& worker) {
  if (!args.meeting->open()) return;
  const int32_t ranks = args.meeting->size();
  const auto row_of = [&](int32_t rank) { return static_cast<float*>(args.meeting->data(rank)); };
  const int64_t total = int64_t{*args.num_rows} * args.columns;
  const kernels::Share own = kernels::share_of(total, args.rank, ranks);
  const kernels::Share part = kernels::share_of(own.end - own.begin, worker.index, worker.count);
  const int64_t begin = own.begin + part.begin;
  const int64_t end = own.begin + part.end;
  float* first = row_of(0);
  for (int32_t rank = 1; rank < ranks; ++rank) {
    const float* x = row_of(rank);
    for (int64_t i = begin; i < end; ++i) first[i] += x[i];
  }
  for (int32_t rank = 1; rank < ranks; ++rank) {
    std::copy(first + begin, first + end, row_of(rank) + begin);
  }
}

void gather_ranks(const GatherRanksArgs& args, const kernels::Worker& worker) {
  if (!args.meeting->open()) return;
  const int32_t ranks = args.meeting->size();
  const kernels::Share share =
      kernels::share_of(int64_t{*args.num_rows} * ranks, worker.index, worker.count);
  for (int64_t i = share.begin; i < share.end; ++i) {
    const int64_t row = i / ranks;
    const auto* part =
        static_cast<const float*>(args.meeting->data(static_cast<int32_t>(i % ranks)));
    std::copy(part + row * args.columns, part + (row + 1) * args.columns,
              args.whole + i * args.columns);
  }
}

}  // namespace encore::cpu
