// Rules E on devices, options, models and pages that a plugin must refuse.
#include <functional>
#include <limits>
#include <string>
#include <utility>

#include "claims.h"
#include "encore/sdk/abi_struct.h"
#include "error_rule_bodies.h"
#include "raw_run.h"
#include "to_abi.h"

namespace encore::check {
namespace {

// Empty if the call failed, with a description as the ABI asks for it.
std::string refusal_fault(const std::string& call, const RawResult& result) {
  if (result.ok()) return call + " succeeded";
  const std::string fault = description_fault(result);
  return fault.empty() ? "" : call + " failed, but " + fault;
}

struct StrangeModel {
  std::string name;
  RandomModel model;
};

// What no plugin can run, since this version does not describe it or it makes no sense.
std::vector<StrangeModel> strange_models() {
  std::vector<StrangeModel> models;
  const auto add = [&models](std::string name, const std::function<void(ModelSpec*)>& change) {
    RandomModel model = small_model();
    change(&model.spec);
    models.push_back({std::move(name), std::move(model)});
  };
  add("an architecture that does not exist",
      [](ModelSpec* spec) { spec->architecture = "no_such_architecture"; });
  add("an empty architecture", [](ModelSpec* spec) { spec->architecture.clear(); });
  add("a head_dim of 7", [](ModelSpec* spec) { spec->head_dim = 7; });
  add("a head_dim of 0", [](ModelSpec* spec) { spec->head_dim = 0; });
  add("no key and value heads", [](ModelSpec* spec) { spec->num_kv_heads = 0; });
  add("a negative number of layers", [](ModelSpec* spec) { spec->num_layers = -1; });
  return models;
}

RawResult check_model(const RawSession& session, const RandomModel& model, int32_t device) {
  const encore_model_spec spec = model_spec_to_abi(model.spec);
  const auto infos = weights_to_abi(model.weights->weights());
  return raw_call(session.table().model_check, session.backend(), device, &spec, infos.data(),
                  infos.size(), uint64_t{sizeof(encore_weight_info)});
}

// Loads, and frees at once what should not have loaded.
RawResult load_model(const RawSession& session, const RandomModel& model, int32_t device) {
  const encore_model_spec spec = model_spec_to_abi(model.spec);
  const WeightBridge bridge(*model.weights);
  auto options = sdk::sized<encore_load_options>();
  options.tensor_parallel_size = 1;
  encore_model* handle = nullptr;
  const RawResult result = raw_call(session.table().model_load, session.backend(), device, &spec,
                                    bridge.abi(), &options, &handle);
  if (handle != nullptr) session.table().model_free(handle);
  return result;
}

}  // namespace

Outcome missing_device_is_refused(const CheckContext& context) {
  const RawSession session(context);
  if (!session.ok()) return session.outcome();
  const encore_backend_table& table = session.table();
  int32_t count = 0;
  const RawResult counted = raw_call(table.device_count, table.backend, &count);
  if (!counted.ok()) return fail("device_count: " + counted.status().to_string());
  const RandomModel model = small_model();
  for (const int32_t device :
       {-1, count, std::numeric_limits<int32_t>::max(), std::numeric_limits<int32_t>::min()}) {
    auto info = sdk::sized<encore_device_info>();
    auto memory = sdk::sized<encore_device_memory>();
    const std::string of = " of device " + std::to_string(device);
    for (std::string fault :
         {refusal_fault("device_info" + of,
                        raw_call(table.device_info, table.backend, device, &info)),
          refusal_fault("device_memory" + of,
                        raw_call(table.device_memory, table.backend, device, &memory)),
          refusal_fault("model_check" + of, check_model(session, model, device)),
          refusal_fault("model_load" + of, load_model(session, model, device))}) {
      if (!fault.empty()) return fail(std::move(fault));
    }
  }
  return pass();
}

Outcome failed_init_can_be_repeated(const CheckContext& context) {
  RawSession session(context);
  if (!session.ok()) return session.outcome();
  session.shutdown();
  const encore_backend_table& table = session.table();
  bool any_failed = false;
  for (size_t i = 0; i < session.options().size(); ++i) {
    OptionValues wrong = session.options();
    wrong[i].second = "no such value";
    const auto values = option_values_to_abi(wrong);
    const RawResult result = raw_call(table.init, table.backend, values.data(), values.size(),
                                      uint64_t{sizeof(encore_option_value)});
    if (result.ok()) {  // the host checks values: a plugin may trust them, or take any text
      table.shutdown(table.backend);
      continue;
    }
    any_failed = true;
    const std::string fault = description_fault(result);
    if (!fault.empty())
      return fail("init with a wrong " + wrong[i].first + " failed, but " + fault);
    const Status started = session.init();
    if (!started.ok()) {
      return fail("after an init that failed for a wrong " + wrong[i].first +
                  ", one with good values fails too: " + started.to_string());
    }
    session.shutdown();
  }
  return any_failed ? pass() : skip("no option has a value that its init() refuses");
}

Outcome strange_model_is_refused(const CheckContext& context) {
  const RawSession session(context);
  if (!session.ok()) return session.outcome();
  for (const StrangeModel& strange : strange_models()) {
    std::string fault = refusal_fault("model_check of a model with " + strange.name,
                                      check_model(session, strange.model, session.device()));
    if (!fault.empty()) return fail(std::move(fault));
  }
  return pass();
}

Outcome loading_refuses_what_checking_refuses(const CheckContext& context) {
  const RawSession session(context);
  if (!session.ok()) return session.outcome();
  for (const StrangeModel& strange : strange_models()) {
    if (check_model(session, strange.model, session.device()).ok()) continue;  // rule E03
    std::string fault = refusal_fault("model_load of a model with " + strange.name,
                                      load_model(session, strange.model, session.device()));
    if (!fault.empty()) return fail(std::move(fault));
  }
  return pass();
}

Outcome missing_page_is_refused(const CheckContext& context) {
  const RawSession session(context);
  if (!session.ok()) return session.outcome();
  const encore_backend_table& table = session.table();
  const RandomModel model = small_model();
  const WeightBridge bridge(*model.weights);
  Tailor exact(Cut::kExact);
  const Result<RawModel> loaded = raw_load(session, model, bridge, exact);
  if (!loaded.ok()) return skip("a small model does not load: " + loaded.status().to_string());
  const Result<RawKv> kv = raw_kv(session, loaded->get(), exact);
  if (!kv.ok()) return skip("no KV cache: " + kv.status().to_string());
  auto info = sdk::sized<encore_kv_info>();
  const RawResult asked = raw_call(table.kv_info, kv->get(), &info);
  if (!asked.ok()) return fail("kv_info: " + asked.status().to_string());
  std::vector<std::byte> bytes(static_cast<size_t>(info.page_bytes));
  for (const int32_t page : {-1, info.num_pages, std::numeric_limits<int32_t>::max()}) {
    const std::string of =
        " page " + std::to_string(page) + " of " + std::to_string(info.num_pages);
    const auto copy = [&](encore_page_copy pages) {
      return raw_call(table.kv_copy, kv->get(), &pages, uint64_t{1},
                      uint64_t{sizeof(encore_page_copy)});
    };
    for (std::string fault :
         {refusal_fault("kv_copy to" + of, copy({0, page})),
          refusal_fault("kv_copy from" + of, copy({page, 0})),
          refusal_fault("kv_read of" + of,
                        raw_call(table.kv_read, kv->get(), page, static_cast<void*>(bytes.data()),
                                 uint64_t{bytes.size()}))}) {
      if (!fault.empty()) return fail(std::move(fault));
    }
  }
  return pass();
}

}  // namespace encore::check
