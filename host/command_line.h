// From the process's arguments to its exit code.
#pragma once

namespace encore {

// Runs `encore`. Never throws; errors are on stderr and in the exit code (exit_code.h).
int command_line(int argc, char** argv);

}  // namespace encore
