// Rules S: the file.
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string_view>

#include "elf_symbols.h"
#include "encore/backend_abi.h"
#include "rule.h"

namespace encore::check {
namespace {

// What the linker itself puts into every library.
constexpr std::string_view kLinkerSymbols[] = {"_init", "_fini", "_end", "_edata", "__bss_start"};
constexpr size_t kMaxListed = 5;

using ElfCheck = Outcome (*)(const ElfSymbols& elf, const std::string& path);

template <ElfCheck kCheck>
Outcome on_file(const CheckContext& context) {
  const Result<ElfSymbols> elf = read_elf_symbols(context.plugin_path);
  if (!elf.ok()) return fail(elf.status().message());
  return kCheck(*elf, context.plugin_path);
}

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMaxListed); ++i) {
    if (i > 0) text += ", ";
    text += names[i];
  }
  if (names.size() > kMaxListed) {
    text += " and " + std::to_string(names.size() - kMaxListed) + " more";
  }
  return text;
}

Outcome one_symbol_is_exported(const ElfSymbols& elf, const std::string& /*path*/) {
  std::vector<std::string> others;
  bool has_entry = false;
  for (const DynamicSymbol& symbol : elf.symbols) {
    // Unique symbols have a rule of their own.
    if (!symbol.defined || !symbol.visible || symbol.binding == SymbolBinding::kUnique) continue;
    if (std::find(std::begin(kLinkerSymbols), std::end(kLinkerSymbols), symbol.name) !=
        std::end(kLinkerSymbols)) {
      continue;
    }
    if (symbol.name == ENCORE_BACKEND_ENTRY_NAME) {
      has_entry = true;
    } else {
      others.push_back(symbol.name);
    }
  }
  if (!has_entry) return fail("it does not export " ENCORE_BACKEND_ENTRY_NAME);
  if (others.empty()) return pass();
  return fail("it also exports " + listed(others) +
              "; hide all but the entry with a version script and -fvisibility=hidden");
}

Outcome no_symbol_is_unique(const ElfSymbols& elf, const std::string& /*path*/) {
  std::vector<std::string> unique;
  for (const DynamicSymbol& symbol : elf.symbols) {
    if (symbol.defined && symbol.binding == SymbolBinding::kUnique) unique.push_back(symbol.name);
  }
  if (unique.empty()) return pass();
  return fail("unique symbols (STB_GNU_UNIQUE): " + listed(unique) +
              "; all libraries of a process would share them: compile with -fno-gnu-unique");
}

Outcome stack_is_not_executable(const ElfSymbols& elf, const std::string& /*path*/) {
  if (!elf.executable_stack) return pass();
  return fail(
      "it asks for an executable stack, which the whole process would get; give assembly files a "
      ".note.GNU-stack section and link with -z noexecstack");
}

// Empty if a library found there can be trusted; else why not.
std::string run_path_fault(const std::string& entry) {
  if (entry.empty()) return "an empty entry stands for the working directory";
  if (entry.starts_with("$ORIGIN") || entry.starts_with("${ORIGIN}")) return "";
  if (entry[0] != '/') return "it is relative to the working directory";
  std::filesystem::path folder = std::filesystem::path(entry).lexically_normal();
  for (;; folder = folder.parent_path()) {
    struct stat status = {};
    if (::stat(folder.c_str(), &status) == 0 && (status.st_mode & S_IWOTH) != 0) {
      return "everybody may write to " + folder.string();
    }
    if (folder == folder.root_path()) return "";
  }
}

Outcome run_path_is_safe(const ElfSymbols& elf, const std::string& /*path*/) {
  for (const std::string& entry : elf.run_paths) {
    const std::string fault = run_path_fault(entry);
    if (fault.empty()) continue;
    return fail(std::string("its run path has '")
                    .append(entry)
                    .append("': ")
                    .append(fault)
                    .append("; use $ORIGIN or a folder of the system"));
  }
  return pass();
}

Outcome code_is_not_relocated(const ElfSymbols& elf, const std::string& /*path*/) {
  if (!elf.text_relocations) return pass();
  return fail(
      "it has text relocations (DT_TEXTREL): its code is changed as it is loaded; compile all of "
      "it with -fPIC");
}

Outcome nothing_is_writable_and_executable(const ElfSymbols& elf, const std::string& /*path*/) {
  if (!elf.writable_code) return pass();
  return fail("a segment is both writable and executable; look for a section with flags \"awx\"");
}

// "GLIBC_2.34" -> 2.34; 0 if it is not of that form.
double version_number(std::string_view version, std::string_view prefix) {
  if (!version.starts_with(prefix)) return 0.0;
  version.remove_prefix(prefix.size());
  double value = 0.0;
  std::from_chars(version.data(), version.data() + version.size(), value);
  return value;
}

// 2.4 is older than 2.34: what follows the point is a number of its own.
bool older(std::string_view a, std::string_view b) {
  const auto minor = [](std::string_view version) {
    const size_t point = version.find('.');
    int value = 0;
    if (point != std::string_view::npos) {
      std::from_chars(version.data() + point + 1, version.data() + version.size(), value);
    }
    return value;
  };
  return minor(a) < minor(b);
}

Outcome lowest_glibc_is_known(const ElfSymbols& elf, const std::string& /*path*/) {
  constexpr std::string_view kPrefix = "GLIBC_";
  std::string lowest;
  for (const VersionNeed& need : elf.versions) {
    if (need.version == "GLIBC_PRIVATE") {
      return fail("it uses private symbols (GLIBC_PRIVATE) of " + need.library +
                  ", which belong to one build of glibc");
    }
    if (!need.version.starts_with(kPrefix)) continue;
    if (lowest.empty() || older(lowest, need.version)) lowest = need.version;
  }
  if (lowest.empty()) return skip("it needs no versioned glibc");
  Outcome outcome = pass();
  outcome.measurements.push_back({"lowest_glibc", version_number(lowest, kPrefix), "version"});
  return outcome;
}

constexpr Rule kRules[] = {
    {"S01", "The entry function is the only exported symbol", on_file<one_symbol_is_exported>},
    {"S02", "No symbol is unique to the process", on_file<no_symbol_is_unique>},
    {"S03", "The stack stays non-executable", on_file<stack_is_not_executable>},
    {"S04", "Libraries are looked for in safe folders only", on_file<run_path_is_safe>},
    {"S05", "Code is not changed as it is loaded", on_file<code_is_not_relocated>},
    {"S06", "No memory is both writable and executable",
     on_file<nothing_is_writable_and_executable>},
    {"S07", "It keeps to glibc's public symbols; the lowest version is reported",
     on_file<lowest_glibc_is_known>},
};

}  // namespace

std::span<const Rule> static_rules() { return kRules; }

}  // namespace encore::check
