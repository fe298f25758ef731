// CUPTI, opened at run time and only to trace: nothing links against it.
#pragma once

#include <cupti.h>

#include <string>

#include "encore/status.h"

namespace encore::cuda {

// The functions of CUPTI that Encore calls, as its own header declares them.
struct CuptiFunctions {
  decltype(&cuptiActivityDisable) disable = nullptr;
  decltype(&cuptiActivityEnable) enable = nullptr;
  decltype(&cuptiActivityFlushAll) flush_all = nullptr;
  decltype(&cuptiActivityGetNextRecord) next_record = nullptr;
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks = nullptr;
  decltype(&cuptiGetResultString) result_string = nullptr;
};

// Opens libcupti.so.13 or .12 where the loader finds it, or in $CUDA_PATH and /usr/local/cuda. It
// stays open for the life of the process.
// Errors: kUnavailable, naming what was tried and why each failed.
Result<CuptiFunctions> open_cupti();

// `what` failed, in the words of a log line.
Status cupti_status(const CuptiFunctions& cupti, CUptiResult result, const std::string& what);

}  // namespace encore::cuda
