// Status on one side, a code and an encore_error on the other.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "encore/backend_abi.h"
#include "encore/sdk/abi_text.h"
#include "encore/status.h"

namespace encore::sdk {

static_assert(static_cast<int32_t>(StatusCode::kInternal) == ENCORE_INTERNAL);
static_assert(static_cast<int32_t>(StatusCode::kDataLoss) == ENCORE_DATA_LOSS);
static_assert(static_cast<int32_t>(Scope::kRunner) == ENCORE_SCOPE_RUNNER);
static_assert(static_cast<int32_t>(Scope::kDevice) == ENCORE_SCOPE_DEVICE);
static_assert(static_cast<int32_t>(Scope::kProcess) == ENCORE_SCOPE_PROCESS);

// An error ready to be passed to a function of the other side. The message stays uninitialised, so
// that this costs nothing in a step.
inline void prepare_error(encore_error* error) {
  error->struct_size = sizeof(encore_error);
  error->code = ENCORE_OK;
  error->native_code = 0;
  error->scope = ENCORE_SCOPE_REQUEST;
  error->retryable = 0;
  error->message_size = 0;
}

// Whether the same call may succeed later, if nothing is spoilt.
inline bool is_retryable(StatusCode code) {
  return code == StatusCode::kOutOfMemory || code == StatusCode::kUnavailable ||
         code == StatusCode::kDeadlineExceeded;
}

// `scope` is what the function spoils when it fails: a runner for submit and wait, nothing for the
// others. A bad argument spoils nothing, nor does a wait that ran out of time; a Status may tell of
// more. Describes `status` in `*error`, as far as the owner's struct reaches, and returns its code.
inline encore_status report(const Status& status, int32_t scope, encore_error* error) noexcept {
  const auto code = static_cast<encore_status>(status.code());
  if (status.ok() || error == nullptr) return code;
  constexpr size_t kHeaderBytes = offsetof(encore_error, message);
  if (error->struct_size < kHeaderBytes) return code;
  error->code = code;
  error->native_code = 0;
  const bool harmless = status.code() == StatusCode::kInvalidArgument ||
                        status.code() == StatusCode::kDeadlineExceeded;
  error->scope =
      std::max(harmless ? ENCORE_SCOPE_REQUEST : scope, static_cast<int32_t>(status.scope()));
  const bool spoilt = error->scope != ENCORE_SCOPE_REQUEST;
  error->retryable = !spoilt && is_retryable(status.code()) ? 1 : 0;
  const auto room = static_cast<size_t>(error->struct_size - kHeaderBytes);
  text_to_array(status.message(), error->message,
                std::min<size_t>(room, ENCORE_ERROR_MESSAGE_CAPACITY), &error->message_size);
  return code;
}

// The status that the other side returned and described. Unknown codes become kInternal, unknown
// scopes the widest; the native code and a wide scope are appended to the message.
inline Status status_from_abi(encore_status code, const encore_error& error) {
  if (code == ENCORE_OK) return {};
  std::string message = text_from_abi(
      error.message, std::min<uint64_t>(error.message_size, ENCORE_ERROR_MESSAGE_CAPACITY));
  if (message.empty()) message = "no message was given";
  if (error.native_code != 0) {
    message += " (native code " + std::to_string(error.native_code) + ")";
  }
  const bool known = error.scope >= ENCORE_SCOPE_REQUEST && error.scope <= ENCORE_SCOPE_PROCESS;
  const Scope scope = known ? static_cast<Scope>(error.scope) : Scope::kProcess;
  if (scope == Scope::kDevice) message += " (the device is lost to this process)";
  if (scope == Scope::kProcess) message += " (a new process is needed)";
  if (code < ENCORE_OK || code > ENCORE_INTERNAL) {
    return internal_error(message + " (unknown error code " + std::to_string(code) + ")")
        .spoiling(scope);
  }
  return Status(static_cast<StatusCode>(code), std::move(message)).spoiling(scope);
}

// Runs `function`, which returns a Status, and lets nothing escape.
template <typename Function>
encore_status guarded(int32_t scope, encore_error* error, Function&& function) noexcept {
  try {
    try {
      return report(function(), scope, error);
    } catch (const std::bad_alloc&) {
      return report(out_of_memory("out of host memory"), scope, error);
    } catch (const std::exception& exception) {
      return report(internal_error(std::string("exception: ") + exception.what()), scope, error);
    } catch (...) {
      return report(internal_error("exception of unknown type"), scope, error);
    }
  } catch (...) {
    return ENCORE_INTERNAL;  // not even the message could be made
  }
}

// Runs `function`, which returns nothing and has no way to report, and lets nothing escape.
template <typename Function>
void guarded_void(Function&& function) noexcept {
  try {
    function();
  } catch (...) {  // frees and shutdown cannot fail
    return;
  }
}

}  // namespace encore::sdk
