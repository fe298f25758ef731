#include "vram_in_use.h"

#include <fstream>

namespace encore::rocm {

std::optional<int64_t> vram_in_use(std::string_view bus_id, const std::filesystem::path& sysfs) {
  std::ifstream file(sysfs / "bus/pci/devices" / bus_id / "mem_info_vram_used");
  int64_t bytes = 0;
  if (!(file >> bytes) || bytes < 0) return std::nullopt;
  return bytes;
}

}  // namespace encore::rocm
