#include "own_functions.h"

#include <dlfcn.h>

#include <fstream>
#include <iterator>

#include "elf_image.h"

namespace encore::standin {
namespace {

using Functions = std::unordered_map<std::string, std::vector<void*>>;

Functions read_own_functions() {
  Functions functions;
  Dl_info self{};
  if (dladdr(reinterpret_cast<void*>(&own_functions), &self) == 0) return functions;
  std::ifstream file(self.dli_fname, std::ios::binary);
  const std::vector<char> image{std::istreambuf_iterator<char>(file),
                                std::istreambuf_iterator<char>()};
  auto* base = static_cast<char*>(self.dli_fbase);
  for (const ElfSymbol& symbol : elf_symbols(image, SHT_SYMTAB)) {
    if (symbol.is_function) functions[symbol.name].push_back(base + symbol.address);
  }
  return functions;
}

}  // namespace

const Functions& own_functions() {
  static const Functions functions = read_own_functions();
  return functions;
}

}  // namespace encore::standin
