#include "driver_versions.h"

#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <sys/utsname.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <system_error>

namespace encore {
namespace {

constexpr const char* kNvidiaModule = "/proc/driver/nvidia/version";
constexpr const char* kAmdModule = "/sys/module/amdgpu/version";

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

Component kernel() {
  utsname system{};
  if (::uname(&system) != 0) return {"kernel", "", "the system does not say"};
  return {"kernel", system.release, std::string(system.sysname) + " " + system.machine};
}

// The file that a loaded symbol comes from, links followed: its name ends with the version.
Component cpp_library() {
  const char* name = "libstdc++";
  void* symbol = ::dlsym(RTLD_DEFAULT, "__cxa_throw");
  Dl_info info{};
  if (symbol == nullptr || ::dladdr(symbol, &info) == 0) return {name, "", "not found"};
  std::error_code error;
  const std::filesystem::path file = std::filesystem::canonical(info.dli_fname, error);
  const std::string path = error ? info.dli_fname : file.string();
  constexpr std::string_view kMark = ".so.";
  const size_t mark = path.rfind(kMark);
  if (mark == std::string::npos) return {name, "static", "part of " + path};
  return {name, path.substr(mark + kMark.size()), path};
}

// The module's version is in the text of the file; a module without one is there all the same.
Component kernel_module(const char* name, const char* path, const char* loaded_mark) {
  std::error_code error;
  if (!std::filesystem::exists(loaded_mark, error)) {
    return {name, "", std::string("not loaded: there is no ") + loaded_mark};
  }
  const std::string version = version_in(first_line(path));
  return {name, version.empty() ? "loaded" : version, path};
}

// The first of `libraries` that can be opened, and what `function`, int(int*), says of it.
template <typename Format>
Component library(const char* name, std::initializer_list<const char*> libraries,
                  const char* function, Format format) {
  std::string problem;
  for (const char* file : libraries) {
    void* handle = ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      const char* reason = ::dlerror();
      if (problem.empty() && reason != nullptr) problem = reason;
      continue;
    }
    auto* const version_of = reinterpret_cast<int (*)(int*)>(::dlsym(handle, function));
    int version = 0;
    if (version_of == nullptr) return {name, "unknown", std::string(file) + " has no " + function};
    if (const int code = version_of(&version); code != 0) {
      return {name, "unknown",
              std::string(function) + " of " + file + " returns " + std::to_string(code)};
    }
    return {name, format(version), file};
  }
  return {name, "", problem};
}

// 12080 is 12.8.
std::string cuda_version(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// 60342134 is 6.3.42134.
std::string hip_version(int version) {
  return std::to_string(version / 10'000'000) + "." + std::to_string(version / 100'000 % 100) +
         "." + std::to_string(version % 100'000);
}

}  // namespace

std::vector<Component> find_components() {
  return {kernel(),
          {"glibc", ::gnu_get_libc_version(), "of this process"},
          cpp_library(),
          kernel_module("NVIDIA kernel module", kNvidiaModule, kNvidiaModule),
          library("CUDA driver", {"libcuda.so.1"}, "cuDriverGetVersion", cuda_version),
          kernel_module("AMD kernel module", kAmdModule, "/sys/module/amdgpu"),
          library("HIP run time", {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"},
                  "hipRuntimeGetVersion", hip_version)};
}

std::string version_in(const std::string& text) {
  const auto is_digit = [&](size_t at) {
    return at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) != 0;
  };
  for (size_t begin = 0; begin < text.size(); ++begin) {
    const bool starts = is_digit(begin) && (begin == 0 || text[begin - 1] == ' ');
    if (!starts) continue;
    size_t end = begin;
    bool has_point = false;
    while (is_digit(end) || (end < text.size() && text[end] == '.' && is_digit(end + 1))) {
      has_point = has_point || text[end] == '.';
      ++end;
    }
    if (has_point) return text.substr(begin, end - begin);
  }
  return {};
}

}  // namespace encore
