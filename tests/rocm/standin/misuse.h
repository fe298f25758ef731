// Uses of the run-time that HIP leaves undefined or forbids, beside the error that the call
// returns: a program that ignores the error is found all the same.
#pragma once

#include <cstdint>
#include <string>

namespace encore::standin {

// Writes a line to stderr and to the file of ENCORE_STANDIN_REPORT, and counts.
void note_misuse(const std::string& what);
int64_t misuses();

// Does nothing without such a file.
void append_to_report(const std::string& line);

}  // namespace encore::standin
