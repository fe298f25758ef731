#include "plugin_session.h"

#include <utility>

#include "encore/loader/options.h"
#include "encore/loader/plugin_loader.h"

namespace encore::check {

PluginSession::PluginSession(const CheckContext& context) : device_(context.device) {
  const Status started = start(context);
  if (started.ok()) return;
  backend_.reset();
  outcome_ = skip(std::string("the plugin cannot be used: ") + started.message());
}

PluginSession::~PluginSession() = default;  // the loader shuts a backend down when it lets it go

Status PluginSession::start(const CheckContext& context) {
  ENCORE_ASSIGN_OR_RETURN(LoadedPlugin plugin,
                          load_plugin(context.plugin_path, {"encore-plugin-check", {}}, nullptr,
                                      {.probe = false}));  // this process may die: it is one rule's
  const ProbeResult probe = plugin.backend->probe();
  if (!probe.usable) return unavailable(probe.reason);
  ENCORE_ASSIGN_OR_RETURN(const OptionValues options,
                          check_options(plugin.backend->option_schema(), context.options));
  ENCORE_RETURN_IF_ERROR(plugin.backend->init(options));
  ENCORE_ASSIGN_OR_RETURN(device_info_, plugin.backend->device_info(device_));
  backend_ = std::move(plugin.backend);
  return {};
}

Result<std::unique_ptr<Model>> PluginSession::load(const ModelSpec& spec,
                                                   const WeightSource& weights) {
  ENCORE_RETURN_IF_ERROR(backend_->check_model(device_, spec, weights.weights()));
  return backend_->load_model(device_, spec, weights, {});
}

Outcome outcome_of(const Status& status) {
  if (status.ok()) return pass();
  if (status.code() == StatusCode::kUnimplemented) return skip(status.message());
  return fail(status.to_string());
}

}  // namespace encore::check
