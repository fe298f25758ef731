#include "collective_bridge.h"

#include <memory>
#include <utility>

#include "call.h"
#include "capture.h"
#include "collective.h"
#include "device.h"
#include "faults.h"
#include "misuse.h"
#include "rccl_numbers.h"

namespace standin = encore::standin;

using standin::Communicator;
using standin::Group;
using standin::Lock;

int encore_standin_communicators(const char* name, int num_ranks, const int* devices,
                                 void** communicators) {
  const Lock lock(standin::run_time_mutex());
  if (const int failure = standin::next_failure(name); failure != 0) return failure;
  auto group = std::make_shared<Group>();
  for (int rank = 0; rank < num_ranks; ++rank) {
    const int device = devices == nullptr ? rank : devices[rank];
    if (!standin::has_device(device)) return standin::kRcclInvalidArgument;
    group->devices.push_back(device);
  }
  group->arrived.resize(group->devices.size());
  for (int rank = 0; rank < num_ranks; ++rank) {
    communicators[rank] = standin::add_communicator(group, rank);
  }
  return standin::kRcclSuccess;
}

int encore_standin_collective(const char* name, void* communicator, int gathers, const void* send,
                              void* receive, size_t count, int type, hipStream_t handle) {
  const Lock lock(standin::run_time_mutex());
  if (const int failure = standin::next_failure(name); failure != 0) return failure;
  const auto* own = static_cast<const Communicator*>(communicator);
  if (!standin::has_communicator(own)) {
    standin::note_misuse("a communicator is used that is none");
    return standin::kRcclInvalidArgument;
  }
  standin::Stream* stream = standin::find_stream(handle);
  if (stream == nullptr || stream->device != own->group->devices[own->rank] ||
      standin::bytes_of_type(type) == 0) {
    standin::note_misuse("a collective in a stream of another device, or of an unknown type");
    return standin::kRcclInvalidArgument;
  }
  if (standin::loss_of(stream->device) != hipSuccess) return standin::kRcclUnhandledCudaError;
  const auto kind =
      gathers != 0 ? standin::CollectiveKind::kAllGather : standin::CollectiveKind::kAllReduce;
  const hipError_t error = standin::enqueue(
      *stream,
      standin::make_collective(*own, {kind, send, receive, count, type, standin::kRcclSum}));
  return error == hipSuccess ? standin::kRcclSuccess : standin::kRcclUnhandledCudaError;
}

int encore_standin_end_communicator(const char* name, void* communicator, int aborts) {
  const Lock lock(standin::run_time_mutex());
  const int failure = standin::next_failure(name);
  auto* own = static_cast<Communicator*>(communicator);
  if (!standin::has_communicator(own)) {
    standin::note_misuse("a communicator is ended twice");
    return standin::kRcclInvalidArgument;
  }
  if (aborts != 0) standin::abort_group(*own->group);
  standin::remove_communicator(own);
  return failure;
}

int encore_standin_call(const char* name) {
  const Lock lock(standin::run_time_mutex());
  return standin::next_failure(name);
}
