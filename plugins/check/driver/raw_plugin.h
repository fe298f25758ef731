// A plugin through its C table, as a host of any version might call it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "encore/backend.h"
#include "encore/backend_abi.h"
#include "encore/sdk/abi_status.h"
#include "encore/status.h"
#include "rule.h"

namespace encore::check {

// The entry function of a library that stays mapped for the life of the process.
struct RawEntry {
  encore_backend_entry_fn call = nullptr;
};
// Errors: the linker's words.
Result<RawEntry> open_entry(const std::string& path);

// This host as plugins of this build know it. Valid for the life of the process.
const encore_host_info* plain_host();

// What one call gave back.
struct RawResult {
  encore_status code = ENCORE_OK;
  encore_error error{};

  bool ok() const { return code == ENCORE_OK; }
  Status status() const { return sdk::status_from_abi(code, error); }
};

// Calls a function of the table whose last argument is the error.
template <typename Function, typename... Arguments>
RawResult raw_call(Function function, Arguments... arguments) {
  RawResult result;
  sdk::prepare_error(&result.error);
  result.code = function(arguments..., &result.error);
  return result;
}

// Empty if the failure is described as the ABI asks; else what is wrong with the description.
// REQUIRES: !result.ok().
std::string description_fault(const RawResult& result);

// The plugin, initialised with the context's options, for the length of one rule. Shuts it down at
// its end. One thread.
class RawSession {
 public:
  explicit RawSession(const CheckContext& context, const encore_host_info* host = plain_host());
  ~RawSession();
  RawSession(const RawSession&) = delete;
  RawSession& operator=(const RawSession&) = delete;

  bool ok() const { return initialised_; }
  // How the rule ends if not ok(): skipped, for whether it starts is the business of the rules L.
  const Outcome& outcome() const { return outcome_; }

  // The rest REQUIRES: ok().
  const encore_backend_table& table() const { return table_; }
  encore_backend* backend() const { return table_.backend; }
  int32_t device() const { return device_; }
  const OptionValues& options() const { return options_; }

  void shutdown();
  Status init();

 private:
  Status start(const CheckContext& context, const encore_host_info* host);

  encore_backend_table table_{};
  OptionValues options_;
  int32_t device_;
  Outcome outcome_;
  bool initialised_ = false;
};

}  // namespace encore::check
