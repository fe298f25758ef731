// What a plugin may leave behind in its process, counted from outside the plugin.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace encore::check {

int64_t count_threads();
int64_t count_descriptors();
int64_t resident_bytes();

// As count_threads(), but waits up to two seconds for it to fall to `expected`: a thread that has
// been joined may be listed a moment longer.
int64_t settled_threads(int64_t expected);

// What belongs to the whole process, or to the calling thread, and is not a plugin's to change.
// Each part as text, so that a difference can be shown.
using ProcessState = std::map<std::string, std::string>;
ProcessState signal_state();          // handlers and this thread's mask
ProcessState floating_point_state();  // rounding, exceptions, flush to zero
ProcessState affinity_state();        // of this thread
ProcessState environment_state();     // locale, working directory, umask, variables, limits

// Empty if equal; else "umask was 022 and is 077; ...".
std::string difference(const ProcessState& before, const ProcessState& after);

}  // namespace encore::check
