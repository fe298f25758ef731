// Runs the encore binary as a user would.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace encore {

struct CommandResult {
  int exit_code = -1;  // 128 + signal if one ended it
  std::string out;
  std::string err;
};

// Runs `encore ARGUMENTS...` with `input` on stdin, no terminal, and `environment` ("NAME=value")
// added to the process's. Sends SIGINT as soon as stdout has any text, if asked to.
CommandResult run_encore(const std::vector<std::string>& arguments, const std::string& input = "",
                         const std::vector<std::string>& environment = {},
                         bool interrupt_at_first_output = false);

// A file in a folder of this test process, removed with it.
std::string write_temporary(const std::string& name, const std::string& text);

// An empty folder in that one, writable by its owner alone.
std::string make_folder(const std::string& name);

// Path of the SmolLM2 GGUF in the folder ENCORE_TEST_MODELS; nothing if it is not there.
std::optional<std::string> smollm2_path();

}  // namespace encore
