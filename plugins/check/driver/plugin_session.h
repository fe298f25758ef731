// The plugin under check, loaded and initialised for the length of one rule.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "encore/backend.h"
#include "encore/status.h"
#include "encore/weights.h"
#include "rule.h"

namespace encore::check {

// Loads the plugin, asks it whether it can run here, and initialises it with the context's options.
// Shuts it down at its end, so models made from it must be gone by then. One thread.
//
//   PluginSession session(context);
//   if (!session.ok()) return session.outcome();
//
// A plugin that cannot be used skips the rule: that it loads and starts is the business of the
// rules L, and one fault should fail one rule.
class PluginSession {
 public:
  explicit PluginSession(const CheckContext& context);
  ~PluginSession();
  PluginSession(const PluginSession&) = delete;
  PluginSession& operator=(const PluginSession&) = delete;

  bool ok() const { return backend_ != nullptr; }
  // How the rule ends if not ok().
  const Outcome& outcome() const { return outcome_; }

  // The rest REQUIRES: ok().
  Backend& backend() { return *backend_; }
  int32_t device() const { return device_; }
  const DeviceInfo& device_info() const { return device_info_; }
  bool has(uint64_t capability) const { return (device_info_.capabilities & capability) != 0; }

  // Both are borrowed for the model's life.
  // Errors: the plugin's; kUnimplemented if it says that it does not run such a model.
  Result<std::unique_ptr<Model>> load(const ModelSpec& spec, const WeightSource& weights);

 private:
  Status start(const CheckContext& context);

  int32_t device_;
  DeviceInfo device_info_;
  Outcome outcome_;
  std::unique_ptr<Backend> backend_;  // null: outcome_ says why
};

// How a rule ends that could not load its model or make its runners: skipped if the plugin says
// that it does not offer such a thing, failed otherwise.
Outcome outcome_of(const Status& status);

}  // namespace encore::check
