// Failures that tests ask for, and how often each function has been called.
//
// Guarded by the run-time's mutex (call.h), like everything here that says nothing else.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace encore::standin {

// Counts a call; the code with which it shall fail, or 0.
int next_failure(std::string_view name);

// From now on fails as `failures` says, "hipMalloc:3:2,hipGraphLaunch:1:999", and counts from 0.
// An entry that is not name:number:code ends the process.
void plan_failures(std::string_view failures);

int64_t calls_of(std::string_view name);
// "hipFree 3\nhipMalloc 12\n", in alphabetical order.
std::string all_calls();

}  // namespace encore::standin
