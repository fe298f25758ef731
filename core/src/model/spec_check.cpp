#include <array>
#include <cmath>

#include "model/model_weights.h"
#include "model/printable.h"

namespace encore {
namespace {

struct Limit {
  const char* name;
  int64_t value;
  int64_t most;
};

}  // namespace

Status check_spec(const ModelSpec& spec, const std::string& where) {
  // Far above any model, and small enough that no product of two sizes overflows.
  const std::array<Limit, 8> limits = {{
      {"vocabulary size", spec.vocab_size, 1 << 24},
      {"hidden size", spec.hidden_size, 1 << 20},
      {"intermediate size", spec.intermediate_size, 1 << 22},
      {"number of layers", spec.num_layers, 4096},
      {"number of heads", spec.num_heads, 1 << 14},
      {"number of key-value heads", spec.num_kv_heads, 1 << 14},
      {"head dimension", spec.head_dim, 4096},
      {"context length", spec.max_context, 1 << 30},
  }};
  for (const Limit& limit : limits) {
    if (limit.value < 1 || limit.value > limit.most) {
      return invalid_argument(concat_message(where, ": ", limit.name, " is ", limit.value,
                                             "; it must be 1 to ", limit.most));
    }
  }
  if (spec.num_heads % spec.num_kv_heads != 0) {
    return invalid_argument(concat_message(where, ": ", spec.num_heads,
                                           " heads do not divide evenly among ", spec.num_kv_heads,
                                           " key-value heads"));
  }
  if (spec.head_dim % 2 != 0) {
    return invalid_argument(concat_message(where, ": head dimension is ", spec.head_dim,
                                           "; rotary embeddings need an even one"));
  }
  if (!(spec.rms_norm_eps > 0.0F && spec.rms_norm_eps < 1.0F)) {
    return invalid_argument(concat_message(where, ": RMS norm epsilon is ", spec.rms_norm_eps,
                                           "; it must be above 0 and below 1"));
  }
  return {};
}

}  // namespace encore
