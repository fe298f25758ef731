#include "altered_weights.h"

#include <cstring>

namespace encore::defects {
namespace {

std::vector<std::byte> bytes_of(const WeightSource& source, size_t index) {
  std::vector<std::byte> bytes(static_cast<size_t>(source.weights()[index].bytes));
  static_cast<void>(source.read(index, 0, bytes));
  return bytes;
}

}  // namespace

AlteredWeights::AlteredWeights(const WeightSource& source)
    : source_(source), infos_(source.weights().begin(), source.weights().end()) {}

void AlteredWeights::alter(std::string_view name,
                           const std::function<void(std::vector<std::byte>&)>& change) {
  const auto index = static_cast<size_t>(find_weight(*this, name));
  const auto found = changed_.find(index);
  if (found == changed_.end()) changed_[index] = bytes_of(source_, index);
  change(changed_[index]);
}

void AlteredWeights::add_copy(const std::string& name, std::string_view original) {
  const auto index = static_cast<size_t>(find_weight(source_, original));
  WeightInfo info = infos_[index];
  info.name = name;
  changed_[infos_.size()] = bytes_of(source_, index);
  infos_.push_back(std::move(info));
}

Status AlteredWeights::read(size_t index, int64_t offset, std::span<std::byte> destination) const {
  const auto found = changed_.find(index);
  if (found == changed_.end()) return source_.read(index, offset, destination);
  std::memcpy(destination.data(), found->second.data() + offset, destination.size());
  return {};
}

const std::byte* AlteredWeights::map(size_t index) const {
  const auto found = changed_.find(index);
  return found == changed_.end() ? source_.map(index) : found->second.data();
}

}  // namespace encore::defects
