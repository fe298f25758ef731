// Rules L on what loading alone does: stages, no device, no side effects.
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>

#include "elf_symbols.h"
#include "encore/loader/options.h"
#include "encore/loader/plugin_loader.h"
#include "encore/sdk/abi_struct.h"
#include "encore/sdk/abi_text.h"
#include "load_rule_bodies.h"
#include "process_probe.h"
#include "raw_plugin.h"

namespace encore::check {
namespace {

constexpr auto kProbeLimit = std::chrono::seconds(5);

Result<LoadedPlugin> load_through_stages(const CheckContext& context, LoadFailure* failure) {
  PluginLoadOptions options;
  options.probe_options = context.options;
  return load_plugin(context.plugin_path, {.version = "encore-plugin-check", .log = {}}, failure,
                     options);
}

Outcome failed_stage(const LoadFailure& failure) {
  return fail("stage " + std::string(load_stage_name(failure.stage())) + ", " +
              std::string(load_code_name(failure.code)) + ": " + failure.message);
}

// What makes the vendors' libraries see no device.
void hide_devices() {
  for (const char* variable : {"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
                               "ROCR_VISIBLE_DEVICES", "ONEAPI_DEVICE_SELECTOR"}) {
    ::setenv(variable, "", 1);
  }
  ::setenv("GPU_DEVICE_ORDINAL", "", 1);
}

}  // namespace

Outcome every_stage_passes(const CheckContext& context) {
  LoadFailure failure;
  const Result<LoadedPlugin> plugin = load_through_stages(context, &failure);
  if (!plugin.ok()) return failed_stage(failure);
  const ProbeResult probe = plugin->backend->probe();
  if (!probe.usable) return pass();
  const Result<OptionValues> options =
      check_options(plugin->backend->option_schema(), context.options);
  if (!options.ok()) return fail("--option: " + options.status().message());
  const Status started = plugin->backend->init(*options);
  return started.ok() ? pass() : fail("init: " + started.to_string());
}

Outcome loads_without_device(const CheckContext& context) {
  hide_devices();
  LoadFailure failure;
  const Result<LoadedPlugin> plugin = load_through_stages(context, &failure);
  if (!plugin.ok()) return failed_stage(failure);
  const auto begin = std::chrono::steady_clock::now();
  const ProbeResult probe = plugin->backend->probe();
  if (std::chrono::steady_clock::now() - begin > kProbeLimit) {
    return fail("probe() takes longer than 5 s; it is called whenever plugins are listed");
  }
  if (!probe.usable && probe.reason.empty()) {
    return fail("probe() says that the machine lacks something, but not what: the reason is empty");
  }
  return pass();
}

Outcome asking_starts_nothing(const CheckContext& context) {
  const Result<RawEntry> entry = open_entry(context.plugin_path);
  if (!entry.ok()) return skip(entry.status().message());
  int64_t threads = count_threads();
  int64_t descriptors = count_descriptors();
  // What the calls since the last look have left behind; empty: nothing.
  const auto left_behind = [&](const std::string& calls) -> std::string {
    const int64_t more_threads = count_threads() - threads;
    const int64_t more_descriptors = count_descriptors() - descriptors;
    if (more_threads == 0 && more_descriptors == 0) return {};
    return calls + " left " + std::to_string(more_threads) + " threads and " +
           std::to_string(more_descriptors) + " descriptors; start and open things in init()";
  };
  RawResult called;
  sdk::prepare_error(&called.error);
  const encore_backend_table* table = entry->call(plain_host(), &called.error);
  if (table == nullptr) return skip("the entry function gives no table");
  auto list = sdk::sized<encore_option_list>();
  raw_call(table->option_schema, table->backend, &list);
  const std::string asked = left_behind("the entry function and option_schema()");
  if (!asked.empty()) return fail(asked);
  // A vendor's driver may start a thread when it is first asked for its devices.
  auto probed = sdk::sized<encore_probe_result>();
  raw_call(table->probe, table->backend, &probed);
  threads = count_threads();
  descriptors = count_descriptors();
  constexpr int32_t kMoreProbes = 10;
  for (int32_t i = 0; i < kMoreProbes; ++i) raw_call(table->probe, table->backend, &probed);
  const std::string again = left_behind("ten further calls of probe()");
  return again.empty() ? pass() : fail(again);
}

Outcome table_stays_the_same(const CheckContext& context) {
  const Result<RawEntry> entry = open_entry(context.plugin_path);
  if (!entry.ok()) return skip(entry.status().message());
  RawResult called;
  sdk::prepare_error(&called.error);
  const encore_backend_table* first = entry->call(plain_host(), &called.error);
  if (first == nullptr) return skip("the entry function gives no table");
  const std::string before(reinterpret_cast<const char*>(first), first->struct_size);
  {
    const RawSession session(context);
    if (!session.ok()) return session.outcome();
  }
  const encore_backend_table* second = entry->call(plain_host(), &called.error);
  if (second != first) {
    return fail(
        "the entry function gave another table at its second call; keep one for the life "
        "of the process");
  }
  if (std::memcmp(before.data(), second, before.size()) != 0) {
    return fail("the table's contents changed after init() and shutdown()");
  }
  return pass();
}

Outcome symbols_come_from_named_libraries(const CheckContext& context) {
  const Result<ElfSymbols> elf = read_elf_symbols(context.plugin_path);
  if (!elf.ok()) return skip(elf.status().message());
  void* library = ::dlopen(context.plugin_path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return skip(::dlerror());
  for (const DynamicSymbol& symbol : elf->symbols) {
    if (symbol.defined || symbol.binding != SymbolBinding::kGlobal) continue;
    ::dlerror();
    // In the library and what it needs, nowhere else. A symbol's value may be null.
    static_cast<void>(::dlsym(library, symbol.name.c_str()));
    if (::dlerror() == nullptr) continue;
    return fail("it uses " + symbol.name +
                ", which it found in the host's process, but in none of the libraries that it "
                "needs; link with -z defs");
  }
  return pass();
}

}  // namespace encore::check
