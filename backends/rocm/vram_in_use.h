// How much of a device's memory is in use, from AMD's kernel module.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace encore::rocm {

// Bytes in use on the device "0000:1b:00.0", by all processes: mem_info_vram_used of its folder in
// sysfs. Nothing if there is no such file, or no number in it.
std::optional<int64_t> vram_in_use(std::string_view bus_id,
                                   const std::filesystem::path& sysfs = "/sys");

}  // namespace encore::rocm
