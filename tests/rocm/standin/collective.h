// Collectives over devices of one process: an operation in a stream of each rank, that runs once
// all have come to theirs. What the stand-in for RCCL is made of.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "operation.h"

namespace encore::standin {

class CollectiveOperation;

// Ranks that work together, one a device.
struct Group {
  std::vector<int> devices;                   // by rank
  std::vector<CollectiveOperation*> arrived;  // whose turn it is in each rank; null: nobody's
  bool aborted = false;                       // nothing waits any more
};

struct Communicator {
  std::shared_ptr<Group> group;
  int rank = 0;
};

enum class CollectiveKind { kAllReduce, kAllGather };

struct CollectiveArgs {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  const void* send = nullptr;
  void* receive = nullptr;
  size_t count = 0;  // elements that a rank sends
  int type = 0;      // as RCCL numbers them
  int reduction = 0;
};

// How many communicators there are.
int64_t communicators();
Communicator* add_communicator(std::shared_ptr<Group> group, int rank);
bool has_communicator(const Communicator* communicator);
void remove_communicator(Communicator* communicator);
// Lets all go that wait in the group; what they wrote is undefined.
void abort_group(Group& group);

// 0 for a type that the stand-in does not know.
size_t bytes_of_type(int type);

std::shared_ptr<Operation> make_collective(const Communicator& communicator,
                                           const CollectiveArgs& args);

}  // namespace encore::standin
