#include "kernel_name.h"

#include <cxxabi.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <string_view>

namespace encore::cuda {
namespace {

// What names of cuBLAS's kernels begin with, namespaces included.
constexpr std::array<std::string_view, 10> kCublasPrefixes = {
    "nvjet", "sm80_", "sm90_", "ampere_", "cutlass", "cublas", "gemv", "gemm", "internal::", "dot"};
constexpr std::string_view kNcclPrefix = "ncclDevKernel_";
constexpr std::string_view kAnonymous = "(anonymous namespace)::";

std::string demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), &std::free);
  return text == nullptr ? name : text.get();
}

// "void a::(anonymous namespace)::f<(int)8, g<2>>(h)" becomes "a::f".
std::string qualified_name(const std::string& signature) {
  std::string name;
  int depth = 0;
  for (size_t i = 0; i < signature.size(); ++i) {
    if (depth == 0 && std::string_view(signature).substr(i).starts_with(kAnonymous)) {
      i += kAnonymous.size() - 1;
      continue;
    }
    const char c = signature[i];
    if (c == '<') ++depth;
    if (depth == 0 && c == '(') break;
    if (depth == 0) name += c;
    if (c == '>') --depth;
  }
  return name.substr(name.rfind(' ') + 1);  // npos + 1 is 0
}

// The last part; the one before it where the last says nothing.
std::string_view function_of(std::string_view qualified) {
  const size_t colon = qualified.rfind("::");
  if (colon == std::string_view::npos) return qualified;
  const std::string_view last = qualified.substr(colon + 2);
  return last == "kernel" ? function_of(qualified.substr(0, colon)) : last;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The first "128x256" or "128x128x64" in a name; empty if there is none.
std::string_view tile_of(std::string_view name) {
  for (size_t x = name.find('x'); x != std::string_view::npos; x = name.find('x', x + 1)) {
    size_t begin = x;
    while (begin > 0 && is_digit(name[begin - 1])) --begin;
    size_t end = x;
    while (end + 1 < name.size() && name[end] == 'x' && is_digit(name[end + 1])) {
      ++end;
      while (end < name.size() && is_digit(name[end])) ++end;
    }
    if (begin < x && end > x) return name.substr(begin, end - begin);
  }
  return {};
}

// The tile may stand in a template argument.
std::string cublas_name(std::string_view signature, std::string_view qualified) {
  const std::string_view tile = tile_of(signature);
  if (tile.empty()) return "cublas " + std::string(function_of(qualified));
  const bool split = signature.find("splitK") != std::string_view::npos;
  return "cublas " + std::string(tile) + (split ? " splitK" : "");
}

}  // namespace

std::string short_kernel_name(const char* name) {
  const std::string signature = demangled(name);
  const std::string qualified = qualified_name(signature);
  const std::string_view view = qualified;
  if (view.starts_with(kNcclPrefix)) {
    return "nccl " + std::string(view.substr(kNcclPrefix.size()));
  }
  const bool is_cublas =
      std::any_of(kCublasPrefixes.begin(), kCublasPrefixes.end(),
                  [&](std::string_view prefix) { return view.starts_with(prefix); });
  return is_cublas ? cublas_name(signature, view) : std::string(function_of(view));
}

}  // namespace encore::cuda
