// What librccl.so.1 asks of the stand-in's libamdhip64, which has the streams. Results are RCCL's
// numbers; `name` is the function whose failures a test may have planned.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>

extern "C" {

// Makes num_ranks communicators.
int encore_standin_communicators(const char* name, int num_ranks, const int* devices,
                                 void** communicators);
// `gathers`: an all-gather, else a sum.
int encore_standin_collective(const char* name, void* communicator, int gathers, const void* send,
                              void* receive, size_t count, int type, hipStream_t stream);
int encore_standin_end_communicator(const char* name, void* communicator, int aborts);
// A function that does nothing here.
int encore_standin_call(const char* name);
}
