#include "product_bridge.h"

#include "call.h"
#include "capture.h"
#include "device.h"
#include "faults.h"
#include "misuse.h"
#include "product.h"

namespace standin = encore::standin;

int encore_standin_product(const char* name, const standin::ProductArgs* args, hipStream_t handle) {
  const standin::Lock lock(standin::run_time_mutex());
  if (const int failure = standin::next_failure(name); failure != 0) return failure;
  standin::Stream* stream = standin::find_stream(handle);
  if (stream == nullptr || stream->device != standin::current_device()) {
    standin::note_misuse("a product in a stream that is none of the current device");
    return hipErrorInvalidHandle;
  }
  const hipError_t loss = standin::loss_of(stream->device);
  return loss != hipSuccess ? loss : standin::enqueue(*stream, standin::make_product(*args));
}
