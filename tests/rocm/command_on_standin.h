// Runs the encore binary as a user would, with the rocm plugin on the stand-in for HIP.
#pragma once

#include <string>
#include <vector>

#include "run_command.h"

namespace encore {

// With `environment` ("ENCORE_STANDIN_...=value") added to the process's. No process may leave
// anything or use the run-time wrongly.
CommandResult run_on_standin(const std::vector<std::string>& arguments,
                             const std::vector<std::string>& environment = {});

// A configuration with limits as small as kernels on the host want them.
std::string small_config(const std::string& backend);

}  // namespace encore
