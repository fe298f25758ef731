#include "kernels/cpu/embedding.h"

#include <algorithm>

namespace encore::kernels {

void embedding(const EmbeddingArgs& args, const Worker& worker) {
  for (int32_t i = worker.index; i < *args.num_tokens; i += worker.count) {
    int32_t token = args.token_ids[i];
    if (token < 0 && args.previous_tokens != nullptr) token = args.previous_tokens[-1 - token];
    float* y = args.y + i * args.y_stride;
    if (token < 0 || token >= args.vocab_size) {
      std::fill_n(y, args.hidden_size, 0.0F);
    } else {
      dequantize_row(args.type, args.weight + token * args.row_bytes, args.hidden_size, y);
    }
  }
}

}  // namespace encore::kernels
