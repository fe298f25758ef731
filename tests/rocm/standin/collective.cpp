#include "collective.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "bf16.h"
#include "handles.h"
#include "memory.h"
#include "misuse.h"
#include "rccl_numbers.h"
#include "stream.h"

namespace encore::standin {
namespace {

Handles<Communicator>& all_communicators() {
  static auto& communicators = *new Handles<Communicator>;
  return communicators;
}

template <typename T, typename Add>
void sum(const std::vector<const void*>& parts, size_t count, std::vector<std::byte>& total,
         Add add) {
  auto* out = reinterpret_cast<T*>(total.data());
  for (size_t i = 0; i < count; ++i) {
    T value = static_cast<const T*>(parts[0])[i];
    for (size_t rank = 1; rank < parts.size(); ++rank) {
      value = add(value, static_cast<const T*>(parts[rank])[i]);
    }
    out[i] = value;
  }
}

}  // namespace

class CollectiveOperation final : public Operation {
 public:
  CollectiveOperation(std::shared_ptr<Group> group, size_t rank, const CollectiveArgs& args)
      : group_(std::move(group)), rank_(rank), args_(args) {}
  ~CollectiveOperation() override {
    if (group_->arrived[rank_] == this) group_->arrived[rank_] = nullptr;
  }

  std::string what() const override { return "a collective of rank " + std::to_string(rank_); }
  hipGraphNodeType type() const override { return hipGraphNodeTypeKernel; }
  std::shared_ptr<Operation> for_launch() const override {
    return std::make_shared<CollectiveOperation>(group_, rank_, args_);
  }

  bool ready(std::vector<Stream*>& others) override {
    if (done_ || group_->aborted) return true;
    group_->arrived[rank_] = this;
    bool all = true;
    for (size_t rank = 0; rank < group_->arrived.size(); ++rank) {
      if (group_->arrived[rank] != nullptr) continue;
      all = false;
      for (Stream* stream : streams_of(group_->devices[rank])) others.push_back(stream);
    }
    return all;
  }

  // For all ranks at once.
  hipError_t run() override {
    if (done_ || group_->aborted) return hipSuccess;
    const std::vector<CollectiveOperation*> ranks = group_->arrived;
    std::fill(group_->arrived.begin(), group_->arrived.end(), nullptr);
    for (CollectiveOperation* rank : ranks) {
      if (!fits(*rank)) {
        note_misuse("ranks call different collectives at the same time");
        abort_group(*group_);
        for (const int device : group_->devices) lose_device(device, hipErrorIllegalAddress);
        return hipErrorIllegalAddress;
      }
    }
    compute(ranks);
    for (CollectiveOperation* rank : ranks) rank->done_ = true;
    return hipSuccess;
  }

 private:
  size_t sent_bytes() const { return args_.count * bytes_of_type(args_.type); }
  size_t received_bytes() const {
    return sent_bytes() * (args_.kind == CollectiveKind::kAllGather ? group_->devices.size() : 1);
  }

  bool fits(const CollectiveOperation& other) const {
    const CollectiveArgs& theirs = other.args_;
    if (theirs.kind != args_.kind || theirs.count != args_.count || theirs.type != args_.type ||
        theirs.reduction != args_.reduction) {
      return false;
    }
    const std::string sent = fault_of(theirs.send, other.sent_bytes());
    const std::string received = fault_of(theirs.receive, other.received_bytes());
    if (!sent.empty()) note_misuse("a collective from " + sent);
    if (!received.empty()) note_misuse("a collective to " + received);
    return sent.empty() && received.empty();
  }

  void compute(const std::vector<CollectiveOperation*>& ranks) const {
    std::vector<const void*> parts;
    parts.reserve(ranks.size());
    for (const CollectiveOperation* rank : ranks) parts.push_back(rank->args_.send);
    std::vector<std::byte> result(received_bytes());
    if (args_.kind == CollectiveKind::kAllGather) {
      for (size_t i = 0; i < parts.size(); ++i) {
        if (sent_bytes() > 0) {
          std::memcpy(result.data() + i * sent_bytes(), parts[i], sent_bytes());
        }
      }
    } else if (args_.type == kRcclFloat32) {
      sum<float>(parts, args_.count, result, [](float x, float y) { return x + y; });
    } else if (args_.type == kRcclBfloat16) {
      sum<uint16_t>(parts, args_.count, result,
                    [](uint16_t x, uint16_t y) { return to_bf16(from_bf16(x) + from_bf16(y)); });
    } else {
      sum<int32_t>(parts, args_.count, result, [](int32_t x, int32_t y) { return x + y; });
    }
    for (const CollectiveOperation* rank : ranks) {
      if (!result.empty()) std::memcpy(rank->args_.receive, result.data(), result.size());
    }
  }

  std::shared_ptr<Group> group_;
  size_t rank_;
  CollectiveArgs args_;
  bool done_ = false;
};

int64_t communicators() { return all_communicators().size(); }

Communicator* add_communicator(std::shared_ptr<Group> group, int rank) {
  return all_communicators().add(
      std::make_unique<Communicator>(Communicator{std::move(group), rank}));
}
bool has_communicator(const Communicator* communicator) {
  return all_communicators().has(communicator);
}
void remove_communicator(Communicator* communicator) { all_communicators().remove(communicator); }

void abort_group(Group& group) {
  group.aborted = true;
  notify();
}

size_t bytes_of_type(int type) {
  switch (type) {
    case kRcclInt32:
    case kRcclFloat32:
      return 4;
    case kRcclBfloat16:
      return 2;
    default:
      return 0;
  }
}

std::shared_ptr<Operation> make_collective(const Communicator& communicator,
                                           const CollectiveArgs& args) {
  return std::make_shared<CollectiveOperation>(communicator.group,
                                               static_cast<size_t>(communicator.rank), args);
}

}  // namespace encore::standin
