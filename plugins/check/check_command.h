// From the arguments of encore-plugin-check to its exit code.
#pragma once

namespace encore::check {

// Runs the kit. Never throws. Returns 0 if no rule failed, 1 if one did, 2 for a wrong command
// line.
int check_command(int argc, char** argv);

}  // namespace encore::check
