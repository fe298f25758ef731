// For tests that run in the same process as what they test: C functions, found with dlsym() in the
// stand-in's libamdhip64. Any thread.
#pragma once

#include <cstdint>

extern "C" {

// From now on fails as `failures` says, in the words of ENCORE_STANDIN_FAIL; counts calls from 0;
// devices that were lost work again.
void encore_standin_fail(const char* failures);
// How often that function was called since; `operation`: how many operations have run.
int64_t encore_standin_calls(const char* name);
// All counts: "hipFree 3\nhipMalloc 12\n". Lives until the thread's next call.
const char* encore_standin_all_calls();
// What is held, in words: "2 device allocations (4096 bytes), 1 stream"; empty if nothing. Lives
// until the thread's next call.
const char* encore_standin_held();
// How often the run-time was used wrongly.
int64_t encore_standin_misuses();
}
