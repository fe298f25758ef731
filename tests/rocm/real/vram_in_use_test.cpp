// What the kernel module says of a device's memory, from a folder made to look like its.
#include "vram_in_use.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "temp_folder.h"

namespace encore::rocm {
namespace {

class VramInUse : public testing::Test {
 protected:
  void write(const std::string& text) {
    const std::filesystem::path device = folder_.path() / "bus/pci/devices/0000:c1:00.0";
    std::filesystem::create_directories(device);
    std::ofstream(device / "mem_info_vram_used") << text;
  }
  std::optional<int64_t> of(std::string_view bus_id) const {
    return vram_in_use(bus_id, folder_.path());
  }

  gpu::testing::TempFolder folder_;
};

TEST_F(VramInUse, IsTheFilesNumber) {
  write("11009294336\n");
  EXPECT_EQ(of("0000:c1:00.0"), 11009294336);
  write("0\n");
  EXPECT_EQ(of("0000:c1:00.0"), 0);
}

TEST_F(VramInUse, IsNothingWithoutAFileOrANumber) {
  EXPECT_EQ(of("0000:c1:00.0"), std::nullopt);
  write("");
  EXPECT_EQ(of("0000:c1:00.0"), std::nullopt);
  write("busy\n");
  EXPECT_EQ(of("0000:c1:00.0"), std::nullopt);
  write("-1\n");
  EXPECT_EQ(of("0000:c1:00.0"), std::nullopt);
  write("1\n");
  EXPECT_EQ(of("0000:c2:00.0"), std::nullopt);
}

}  // namespace
}  // namespace encore::rocm
