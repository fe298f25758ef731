// What the operating system says of this process.
#pragma once

#include <cstdint>
#include <string>

namespace encore {

// Most memory ever resident, mapped files included; -1 if unknown.
int64_t peak_resident_bytes();

// Microseconds since the process was started by the system, program loading included; -1 if
// unknown.
int64_t process_age_us();

// The folder that holds the running binary; empty if unknown.
std::string binary_folder();

}  // namespace encore
