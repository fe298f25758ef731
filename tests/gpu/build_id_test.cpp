#include "build_id.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <string>

namespace encore::gpu {
namespace {

// readelf's view of this program: "    Build ID: 0123...".
std::string readelf_build_id() {
  std::FILE* output = ::popen("readelf --notes /proc/$PPID/exe", "r");
  if (output == nullptr) return {};
  std::string text;
  std::array<char, 256> line{};
  while (std::fgets(line.data(), static_cast<int>(line.size()), output) != nullptr) {
    text += line.data();
  }
  ::pclose(output);
  const std::string label = "Build ID: ";
  const size_t at = text.find(label);
  if (at == std::string::npos) return {};
  const size_t begin = at + label.size();
  return text.substr(begin, text.find('\n', begin) - begin);
}

TEST(BuildIdTest, IsWhatReadelfSays) {
  const std::string expected = readelf_build_id();
  ASSERT_EQ(expected.size(), 40U) << "linked without a build id?";
  EXPECT_EQ(own_build_id(), expected);
}

}  // namespace
}  // namespace encore::gpu
