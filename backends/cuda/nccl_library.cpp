#include "nccl_library.h"

#include "shared_library.h"

namespace encore::cuda {
namespace {

constexpr const char* kNames[] = {"libnccl.so.2"};

// Fills the table.
void find_all(Symbols& symbols, NcclFunctions& functions) {
  symbols.find("ncclAllReduce", &functions.all_reduce);
  symbols.find("ncclCommAbort", &functions.comm_abort);
  symbols.find("ncclCommDestroy", &functions.comm_destroy);
  symbols.find("ncclCommGetAsyncError", &functions.async_error);
  symbols.find("ncclCommInitAll", &functions.init_all);
  symbols.find("ncclGetErrorString", &functions.error_string);
  symbols.find("ncclGetLastError", &functions.last_error);
}

}  // namespace

Result<NcclFunctions> open_nccl() {
  return open_functions<NcclFunctions>(
      library_candidates(kNames, {"/lib64/", "/lib/"}), find_all,
      "NCCL cannot be opened, and parallel.tensor needs it on GPUs; install it, or name its folder "
      "in LD_LIBRARY_PATH or the CUDA folder in CUDA_PATH.");
}

Status nccl_status(const NcclFunctions& nccl, ncclResult_t result, const std::string& what) {
  if (result == ncclSuccess) return {};
  std::string message = what + ": NCCL: " + nccl.error_string(result);
  const char* detail = nccl.last_error(nullptr);
  if (detail != nullptr && detail[0] != '\0') message += std::string(" (") + detail + ")";
  return internal_error(message);
}

}  // namespace encore::cuda
