// The CPU plugin's variants of this build, loaded as a host does.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "encore/loader/cpu_isa.h"
#include "encore/loader/manifest.h"
#include "encore/loader/plugin_loader.h"
#include "encore/loader/variants.h"

namespace encore::cpu {

// Sanitizers keep memory and threads of their own, and need terabytes of addresses.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// The variants that this machine runs, best first.
inline std::vector<VariantVerdict> usable_variants() {
  const auto manifest = read_manifest(ENCORE_PLUGIN_FOLDER "/cpu.plugin.yaml");
  EXPECT_TRUE(manifest.ok()) << manifest.status().to_string();
  if (!manifest.ok()) return {};
  auto verdicts = judge_variants(*manifest, cpu_isa());
  EXPECT_TRUE(verdicts.ok()) << verdicts.status().to_string();
  if (!verdicts.ok()) return {};
  std::erase_if(*verdicts, [](const VariantVerdict& verdict) {
    return verdict.state != VariantState::kUntried;
  });
  return std::move(verdicts).value();
}

inline std::unique_ptr<Backend> load_variant_at(const std::string& library) {
  PluginLoadOptions in_this_process;
  in_this_process.probe = false;
  auto plugin = load_plugin(library, {"test", {}}, nullptr, in_this_process);
  EXPECT_TRUE(plugin.ok()) << plugin.status().to_string();
  return plugin.ok() ? std::move(plugin->backend) : nullptr;
}

// The best of them, not initialised.
inline std::unique_ptr<Backend> load_best_variant() {
  const std::vector<VariantVerdict> variants = usable_variants();
  EXPECT_FALSE(variants.empty());
  return variants.empty() ? nullptr : load_variant_at(variants.front().library);
}

inline OptionValues options(const std::string& threads, const std::string& isa = "auto") {
  return {{"threads", threads}, {"isa", isa}, {"pin", "true"}};
}

// Runs `work` in a child process and gives its exit code; a crash is 1000 + the signal. The child
// has none of this process's threads: make backends ready in `work`.
template <typename Work>
int in_child(const Work& work) {
  const pid_t child = fork();
  if (child == 0) _exit(work());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

}  // namespace encore::cpu
