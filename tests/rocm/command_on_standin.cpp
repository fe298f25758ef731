#include "command_on_standin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace encore {

CommandResult run_on_standin(const std::vector<std::string>& arguments,
                             const std::vector<std::string>& environment) {
  const std::string report = make_folder("report") + "/lines";
  std::vector<std::string> all = {"LD_LIBRARY_PATH=" ENCORE_STANDIN_FOLDER,
                                  "ENCORE_STANDIN_REPORT=" + report};
  all.insert(all.end(), environment.begin(), environment.end());
  const CommandResult result = run_encore(arguments, "", all);
  std::ifstream file(report);
  for (std::string line; std::getline(file, line);) {
    EXPECT_THAT(line, ::testing::HasSubstr("nothing left; used wrongly 0 times"));
  }
  return result;
}

std::string small_config(const std::string& backend) {
  const std::string options = backend == "rocm" ? "  options: {blas: rocblas}\n" : "";
  return write_temporary(backend + ".yaml", "model:\n  path: " ENCORE_GOLDEN_MODELS
                                            "/tiny_llama\n"
                                            "backend:\n  name: " +
                                                backend + "\n" + options +
                                                "scheduler:\n"
                                                "  max_running_requests: 2\n"
                                                "  max_tokens_per_step: 32\n"
                                                "  max_context: 64\n");
}

}  // namespace encore
