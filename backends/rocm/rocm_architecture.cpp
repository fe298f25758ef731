#include "rocm_architecture.h"

namespace encore::rocm {

std::string architecture_of(std::string_view name) {
  return std::string(name.substr(0, name.find(':')));
}

gpu::MatrixUnit matrix_unit_of(std::string_view architecture) {
  if (architecture == "gfx90a" || architecture == "gfx942") return gpu::MatrixUnit::kMfma;
  if (architecture.starts_with("gfx11") && architecture.size() == 7) return gpu::MatrixUnit::kWmma;
  return gpu::MatrixUnit::kNone;
}

bool built_for(std::string_view built, std::string_view architecture) {
  while (!built.empty()) {
    const size_t comma = built.find(", ");
    if (built.substr(0, comma) == architecture) return true;
    if (comma == std::string_view::npos) return false;
    built.remove_prefix(comma + 2);
  }
  return false;
}

}  // namespace encore::rocm
