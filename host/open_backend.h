// From `backend` and `plugins` of the configuration to a backend that is ready to load models.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "config/config_loader.h"
#include "encore/backend.h"
#include "encore/loader/registry.h"
#include "encore/status.h"

namespace encore {

struct OpenBackend {
  std::unique_ptr<PluginRegistry> registry;  // owns the backend and shuts it down
  Backend* backend = nullptr;
};

// Loads the plugin, asks whether it can be used here, checks its options and initialises it. A
// backend that fails is an error and never another backend.
// Errors: kInvalidArgument for a name no plugin has (naming those found), a wrong option or a
// device that does not exist; kUnavailable with the plugin's reason; the loader's own.
Result<OpenBackend> open_backend(const LoadedConfig& loaded);

// A registry for the configuration's plugins, with nothing loaded yet.
std::unique_ptr<PluginRegistry> make_registry(const Config& config);

// The configured backend, found, loaded and able to run here; not initialised.
// Errors: kInvalidArgument, with the place of backend.name, if no plugin has the name or the
// machine lacks what it needs; the plugin's failure if it was rejected.
Result<Backend*> usable_backend(PluginRegistry& registry, const LoadedConfig& loaded);

// init() with the options of the configuration if `name` is its backend, else with the defaults.
Status init_backend(const LoadedConfig& loaded, const std::string& name, Backend& backend);

// Errors: kInvalidArgument if the initialised backend has no device of the configured number.
Status check_device(const Backend& backend, const LoadedConfig& loaded);

// The values of `backend.options` checked against `schema`, defaults added.
// Errors: kInvalidArgument, which starts with the place where the option was written.
Result<OptionValues> checked_options(const LoadedConfig& loaded,
                                     const std::vector<OptionSchema>& schema);

// "a whole number from 1 to 64, or auto": what an option may be, for people.
std::string describe_option(const OptionSchema& option);

}  // namespace encore
