#include "call.h"

#include <utility>

#include "device.h"
#include "faults.h"

namespace encore::standin {
namespace {

thread_local hipError_t the_last_error = hipSuccess;

}  // namespace

std::mutex& run_time_mutex() {
  static auto& mutex = *new std::mutex;
  return mutex;
}

hipError_t first_error(const char* name, CallKind kind) {
  const auto planned = static_cast<hipError_t>(next_failure(name));
  if (loses_device(planned)) lose_device(current_device(), planned);
  if (planned != hipSuccess) return planned;
  return kind == CallKind::kInquiry ? hipSuccess : loss_of(current_device());
}

hipError_t remembered(hipError_t error) {
  if (error != hipSuccess) the_last_error = error;
  return error;
}

hipError_t last_error() { return the_last_error; }
hipError_t take_last_error() { return std::exchange(the_last_error, hipSuccess); }

}  // namespace encore::standin
