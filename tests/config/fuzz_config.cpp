// Feeds arbitrary bytes to the YAML reader: every input is either read or refused with a message.
//   cmake --preset asan -DENCORE_BUILD_FUZZERS=ON -DCMAKE_CXX_COMPILER=clang++
//   fuzz_config -max_total_time=600 -max_len=4096 corpus/
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "config/config_loader.h"
#include "config/reference.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  encore::LoadedConfig loaded;
  const encore::Status status = encore::apply_yaml(text, "fuzz.yaml", loaded);
  if (status.ok() && encore::describe_config(loaded).empty()) std::abort();
  if (!status.ok() && status.message().find("fuzz.yaml") == std::string::npos) std::abort();
  return 0;
}
