// Calls a function of a plugin's table with an error struct, and turns the answer into a Status.
#pragma once

#include "encore/backend_abi.h"
#include "encore/sdk/abi_status.h"
#include "encore/status.h"

namespace encore {

// abi_call(table.kv_info, kv, &info) is table.kv_info(kv, &info, &error) as a Status. Allocates
// only if there is an error.
template <typename... Parameters, typename... Arguments>
Status abi_call(encore_status (*function)(Parameters...), Arguments... arguments) {
  encore_error error;
  sdk::prepare_error(&error);
  const encore_status code = function(arguments..., &error);
  return code == ENCORE_OK ? Status() : sdk::status_from_abi(code, error);
}

}  // namespace encore
