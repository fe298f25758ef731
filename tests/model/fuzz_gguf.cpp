// Any bytes as a GGUF model: an error, or a model whose weights can all be touched.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "fuzz_input.h"
#include "model/model_files.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static encore::FuzzFile file;
  const auto model = encore::open_model(file.write(data, size));
  if (!model.ok()) return 0;
  static volatile uint8_t sink = 0;
  const auto weights = model->weights->weights();
  for (size_t i = 0; i < weights.size(); ++i) {
    const std::byte* mapped = model->weights->map(i);
    if (weights[i].bytes < 1) std::abort();
    if (mapped != nullptr) sink = static_cast<uint8_t>(mapped[weights[i].bytes - 1]);
    std::byte last{};
    if (!model->weights->read(i, weights[i].bytes - 1, {&last, 1}).ok()) std::abort();
    model->weights->release(i);
  }
  return sink * 0;
}
