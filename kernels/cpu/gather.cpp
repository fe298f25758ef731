#include "kernels/cpu/gather.h"

#include <cstring>

namespace encore::kernels {

void gather_rows(const GatherRowsArgs& args, const Worker& worker) {
  const size_t bytes = static_cast<size_t>(args.columns) * sizeof(float);
  for (int32_t i = worker.index; i < *args.num_rows; i += worker.count) {
    std::memcpy(args.y + i * args.y_stride, args.x + args.rows[i] * args.x_stride, bytes);
  }
}

}  // namespace encore::kernels
