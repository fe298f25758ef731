#include "cupti_library.h"

#include "cuda_folder.h"

namespace encore::cuda {
namespace {

// Newest first. The functions used and the fields read have been the same since 12.
constexpr const char* kNames[] = {"libcupti.so.13", "libcupti.so.12"};

// Fills the table.
void find_all(gpu::Symbols& symbols, CuptiFunctions& functions) {
  symbols.find("cuptiActivityDisable", &functions.disable);
  symbols.find("cuptiActivityEnable", &functions.enable);
  symbols.find("cuptiActivityFlushAll", &functions.flush_all);
  symbols.find("cuptiActivityGetNextRecord", &functions.next_record);
  symbols.find("cuptiActivityRegisterCallbacks", &functions.register_callbacks);
  symbols.find("cuptiGetResultString", &functions.result_string);
}

}  // namespace

Result<CuptiFunctions> open_cupti() {
  return gpu::open_functions<CuptiFunctions>(
      gpu::library_candidates(kNames, kCudaFolder, {"/extras/CUPTI/lib64/", "/lib64/", "/lib/"}),
      find_all,
      "CUPTI cannot be opened, and kernels are traced through it; install it, or name its folder "
      "in LD_LIBRARY_PATH or the CUDA folder in CUDA_PATH.");
}

Status cupti_status(const CuptiFunctions& cupti, CUptiResult result, const std::string& what) {
  if (result == CUPTI_SUCCESS) return {};
  const char* text = nullptr;
  static_cast<void>(cupti.result_string(result, &text));
  return unavailable(
      what + ": CUPTI: " + (text == nullptr ? std::to_string(static_cast<int>(result)) : text));
}

}  // namespace encore::cuda
