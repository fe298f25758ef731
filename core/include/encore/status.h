// Errors as values: `Status`, and `Result<T>` for a value or the reason there is none.
//
// Nothing in Encore's public interfaces throws. A message names the value, the limit and the
// remedy; it is written for the person who reads the log, not for a program.
#pragma once

#include <cassert>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace encore {

// What kind of failure it was. The numbers are part of the C ABI: never renumber.
enum class StatusCode : int32_t {
  kOk = 0,
  kInvalidArgument = 1,     // the caller's value is wrong, whatever the state
  kNotFound = 2,            // a file, key, tensor or device that was named does not exist
  kFailedPrecondition = 3,  // right call, wrong time
  kOutOfMemory = 4,         // host or device memory, pages or descriptors are used up
  kUnavailable = 5,         // the device or driver is not there
  kUnimplemented = 6,       // known, and not supported
  kDataLoss = 7,            // a file is truncated, malformed or contradicts itself
  kCancelled = 8,           // the caller asked to stop
  kDeadlineExceeded = 9,    // a wait ran past its limit
  kInternal = 10,           // a defect in Encore or in a plugin
};

// The code's name as used in logs and metrics, for example "invalid_argument".
constexpr std::string_view status_code_name(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return "ok";
    case StatusCode::kInvalidArgument:
      return "invalid_argument";
    case StatusCode::kNotFound:
      return "not_found";
    case StatusCode::kFailedPrecondition:
      return "failed_precondition";
    case StatusCode::kOutOfMemory:
      return "out_of_memory";
    case StatusCode::kUnavailable:
      return "unavailable";
    case StatusCode::kUnimplemented:
      return "unimplemented";
    case StatusCode::kDataLoss:
      return "data_loss";
    case StatusCode::kCancelled:
      return "cancelled";
    case StatusCode::kDeadlineExceeded:
      return "deadline_exceeded";
    case StatusCode::kInternal:
      return "internal";
  }
  return "unknown";
}

// How far the damage of a failure reaches: what must be given up or made anew. The numbers are part
// of the C ABI: never renumber.
enum class Scope : int32_t {
  kRequest = 0,  // no further than what failed
  kRunner = 1,   // the runner
  kDevice = 2,   // everything on the device, for as long as the process lives
  kProcess = 3,  // only a new process helps
};

// Success, or a code with a message. Cheap to move; a value type, so any thread may own one.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }
  Scope scope() const { return scope_; }

  // The same failure, told to reach that far; and in other words.
  Status spoiling(Scope scope) && {
    scope_ = scope;
    return std::move(*this);
  }
  Status retold(std::string message) const {
    return Status(code_, std::move(message)).spoiling(scope_);
  }

  // "invalid_argument: top_p is 1.5; it must be in (0, 1]"
  std::string to_string() const {
    if (ok()) return "ok";
    return std::string(status_code_name(code_)) + ": " + message_;
  }

 private:
  StatusCode code_ = StatusCode::kOk;
  Scope scope_ = Scope::kRequest;
  std::string message_;
};

inline Status invalid_argument(std::string message) {
  return {StatusCode::kInvalidArgument, std::move(message)};
}
inline Status not_found(std::string message) { return {StatusCode::kNotFound, std::move(message)}; }
inline Status failed_precondition(std::string message) {
  return {StatusCode::kFailedPrecondition, std::move(message)};
}
inline Status out_of_memory(std::string message) {
  return {StatusCode::kOutOfMemory, std::move(message)};
}
inline Status unavailable(std::string message) {
  return {StatusCode::kUnavailable, std::move(message)};
}
inline Status unimplemented(std::string message) {
  return {StatusCode::kUnimplemented, std::move(message)};
}
inline Status data_loss(std::string message) { return {StatusCode::kDataLoss, std::move(message)}; }
inline Status cancelled(std::string message) {
  return {StatusCode::kCancelled, std::move(message)};
}
inline Status deadline_exceeded(std::string message) {
  return {StatusCode::kDeadlineExceeded, std::move(message)};
}
inline Status internal_error(std::string message) {
  return {StatusCode::kInternal, std::move(message)};
}

// A `T`, or the `Status` that explains why there is none. Never holds an ok status without a value.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {  // NOLINT(google-explicit-constructor)
    assert(!status_.ok() && "a Result needs a value or an error");
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }

  // REQUIRES: ok().
  T& value() & {
    assert(ok());
    return *value_;
  }
  const T& value() const& {
    assert(ok());
    return *value_;
  }
  T&& value() && {
    assert(ok());
    return *std::move(value_);
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  Status status_;
  std::optional<T> value_;
};

#define ENCORE_CONCAT_INNER(a, b) a##b
#define ENCORE_CONCAT(a, b) ENCORE_CONCAT_INNER(a, b)

// Leaves the enclosing function with the status if it is an error.
#define ENCORE_RETURN_IF_ERROR(expression)                                    \
  do {                                                                        \
    if (::encore::Status encore_status = (expression); !encore_status.ok()) { \
      return encore_status;                                                   \
    }                                                                         \
  } while (false)

// NOLINTBEGIN(bugprone-macro-parentheses): targets and results are names, not expressions.
// ENCORE_ASSIGN_OR_RETURN(auto file, MappedFile::open(path));
#define ENCORE_ASSIGN_OR_RETURN(target, expression) \
  ENCORE_ASSIGN_OR_RETURN_INNER(ENCORE_CONCAT(encore_result_, __LINE__), target, expression)
#define ENCORE_ASSIGN_OR_RETURN_INNER(result, target, expression) \
  auto result = (expression);                                     \
  if (!result.ok()) return result.status();                       \
  target = std::move(result).value()
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace encore
