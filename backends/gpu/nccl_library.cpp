#include "nccl_library.h"

#include "shared_library.h"

namespace encore::gpu {
namespace {

// Fills the table.
void find_all(Symbols& symbols, NcclFunctions& functions) {
  symbols.find("ncclAllGather", &functions.all_gather);
  symbols.find("ncclAllReduce", &functions.all_reduce);
  symbols.find("ncclCommAbort", &functions.comm_abort);
  symbols.find("ncclCommDestroy", &functions.comm_destroy);
  symbols.find("ncclCommGetAsyncError", &functions.async_error);
  symbols.find("ncclCommInitAll", &functions.init_all);
  symbols.find("ncclGetErrorString", &functions.error_string);
  symbols.find("ncclGetLastError", &functions.last_error);
  symbols.find("ncclGroupEnd", &functions.group_end);
  symbols.find("ncclGroupStart", &functions.group_start);
}

}  // namespace

Result<NcclFunctions> open_nccl(std::span<const std::string> candidates, const char* name,
                                const std::string& message) {
  ENCORE_ASSIGN_OR_RETURN(NcclFunctions functions,
                          open_functions<NcclFunctions>(candidates, find_all, message));
  functions.name = name;
  return functions;
}

Status nccl_status(const NcclFunctions& nccl, ncclResult_t result, const std::string& what) {
  if (result == ncclSuccess) return {};
  std::string message = what + ": " + nccl.name + ": " + nccl.error_string(result);
  const char* detail = nccl.last_error(nullptr);
  if (detail != nullptr && detail[0] != '\0') message += std::string(" (") + detail + ")";
  return internal_error(message);
}

}  // namespace encore::gpu
