#include "fallback_blas.h"

#include <algorithm>
#include <cstddef>

#include "encore/sdk/host.h"

namespace encore::gpu {
namespace {

constexpr int64_t kAlignment = 256;  // what Blas asks of a workspace
constexpr size_t kMaxLater = 8192;   // past this the table starts anew

int64_t rounded_up(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

int64_t FallbackBlas::workspace_bytes() const {
  int64_t bytes = 0;
  for (const Choice& choice : choices_) bytes += rounded_up(choice.blas->workspace_bytes());
  return bytes;
}

void FallbackBlas::set_workspace(void* workspace) {
  auto* part = static_cast<std::byte*>(workspace);
  for (const Choice& choice : choices_) {
    choice.blas->set_workspace(part);
    part += rounded_up(choice.blas->workspace_bytes());
  }
}

template <typename Call>
Status FallbackBlas::with_library_of(const ProductShape& shape, const Call& call) {
  const auto known = later_.find(shape);
  size_t at = known == later_.end() ? 0 : known->second;
  for (;;) {
    Status status = call(*choices_[at].blas);
    if (status.code() != StatusCode::kUnimplemented || at + 1 == choices_.size()) return status;
    const Choice& next = choices_[++at];
    sdk::log(sdk::LogLevel::kInfo, "blas_fallback: " + name_of(shape) + " by " + next.name +
                                       ", not by " + choices_[at - 1].name + ": " +
                                       status.message());
    ++fallbacks_;
    if (later_.size() >= kMaxLater) later_.clear();
    later_[shape] = at;
  }
}

Status FallbackBlas::tune(const ProductShape& shape, const ProductOperands& operands,
                          std::span<const void* const> weights, void* stream) {
  return with_library_of(shape,
                         [&](Blas& blas) { return blas.tune(shape, operands, weights, stream); });
}

Status FallbackBlas::multiply(const ProductShape& shape, const ProductOperands& operands,
                              void* stream) {
  return with_library_of(shape, [&](Blas& blas) { return blas.multiply(shape, operands, stream); });
}

Status FallbackBlas::save_tuning() {
  Status first;
  for (const Choice& choice : choices_) {
    const Status saved = choice.blas->save_tuning();
    if (first.ok()) first = saved;
  }
  return first;
}

}  // namespace encore::gpu
