// The kernels compiled for the host are those of the plugin's device code, name by name.
#include "kernels/kernel_library.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "elf_image.h"

namespace encore::standin {
namespace {

// Of all code objects that the plugin is made of.
std::set<std::string> device_kernels_of_plugin() {
  constexpr std::string_view kSuffix = ".kd";
  std::set<std::string> names;
  std::istringstream files(ENCORE_CODE_OBJECTS);
  for (std::string path; std::getline(files, path, ':');) {
    std::ifstream file(path, std::ios::binary);
    const std::vector<char> image{std::istreambuf_iterator<char>(file),
                                  std::istreambuf_iterator<char>()};
    for (const ElfSymbol& symbol : elf_symbols(image, SHT_DYNSYM)) {
      if (!std::string_view(symbol.name).ends_with(kSuffix)) continue;
      names.insert(symbol.name.substr(0, symbol.name.size() - kSuffix.size()));
    }
  }
  return names;
}

TEST(KernelLibraryTest, HasEveryKernelOfThePlugin) {
  void* library = dlopen(ENCORE_KERNEL_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto find = reinterpret_cast<EncoreFindKernel>(dlsym(library, kFindKernelName));
  ASSERT_NE(find, nullptr);
  const std::set<std::string> names = device_kernels_of_plugin();
  EXPECT_GT(names.size(), 20U);
  for (const std::string& name : names) {
    EncoreHostKernel kernel{};
    const char* why_not = find(name.c_str(), &kernel);
    EXPECT_EQ(why_not, nullptr) << why_not;
  }
}

TEST(KernelLibraryTest, SaysWhichKernelItLacks) {
  void* library = dlopen(ENCORE_KERNEL_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto find = reinterpret_cast<EncoreFindKernel>(dlsym(library, kFindKernelName));
  EncoreHostKernel kernel{};
  EXPECT_STREQ(find("_ZN6encore3gpu7missingEPf", &kernel),
               "the kernels compiled for the host lack encore::gpu::missing(float*) "
               "[_ZN6encore3gpu7missingEPf]");
}

}  // namespace
}  // namespace encore::standin
