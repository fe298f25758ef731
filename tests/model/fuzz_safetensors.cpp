// Any bytes as a safetensors file, or, if they start like JSON, as a config.json.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "fuzz_input.h"
#include "model/hf_config.h"
#include "model/mapped_file.h"
#include "model/safetensors.h"

namespace {

void check_tensors(const encore::MappedFile& file) {
  const auto tensors = encore::read_safetensors_header(file);
  if (!tensors.ok()) return;
  for (const auto& [name, tensor] : *tensors) {
    if (tensor.offset < 8 || tensor.bytes < 1 || tensor.offset > file.size() ||
        tensor.bytes > file.size() - tensor.offset) {
      std::abort();
    }
  }
}

void check_config(std::string_view text) {
  const auto config = encore::read_hf_config(text, "config.json");
  if (!config.ok()) return;
  const encore::ModelSpec& spec = config->spec;
  if (spec.head_dim < 2 || static_cast<int64_t>(spec.rope.inv_freq.size()) * 2 != spec.head_dim) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 0 && data[0] == '{') {
    check_config({reinterpret_cast<const char*>(data), size});
    return 0;
  }
  static encore::FuzzFile input;
  const auto file = encore::MappedFile::open(input.write(data, size));
  if (file.ok()) check_tensors(**file);
  return 0;
}
