// Rules N on outputs: a plugin writes what the host's structs have room for, and no more.
#include <cstring>
#include <functional>
#include <string>

#include "encore/sdk/abi_struct.h"
#include "negotiation_rule_bodies.h"
#include "raw_run.h"
#include "to_abi.h"

namespace encore::check {
namespace {

constexpr size_t kSizeStep = 8;

// What the plugin fills in: one model with a cache, and every function that has an output.
struct Filled {
  const RawSession& session;
  encore_model* model;
  encore_kv* kv;
};

// Calls `function`, whose last argument but the error is a T, with structs of the sizes given by
// `first`, `last`; empty if each is filled as it should be.
template <typename T, typename Call>
std::string fault_of(const char* name, size_t first, size_t last, Call call) {
  for (size_t size = first; size <= last; size += kSizeStep) {
    OutputSlot<T> slot(size);
    const RawResult result = call(slot.get());
    if (!result.ok()) return std::string(name) + ": " + result.status().to_string();
    const std::string fault = slot.fault();
    if (fault.empty()) continue;
    return std::string(name) + " with a struct_size of " + std::to_string(size) + " " + fault;
  }
  return "";
}

enum class Sizes : int32_t { kShorter, kLonger };

template <typename T, typename Call>
std::string fault_of(const char* name, Sizes sizes, Call call) {
  if (sizes == Sizes::kShorter) {
    return fault_of<T>(name, sizeof(uint64_t), sizeof(T) - kSizeStep, call);
  }
  // Of a longer struct all beyond this version's end must keep its poison.
  return fault_of<T>(name, sizeof(T) + kExtraBytes, sizeof(T) + kExtraBytes, call);
}

std::string first_fault(const Filled& filled, Sizes sizes) {
  const encore_backend_table& table = filled.session.table();
  encore_backend* backend = table.backend;
  const int32_t device = filled.session.device();
  std::string faults[] = {
      fault_of<encore_probe_result>("probe", sizes,
                                    [&](auto* out) { return raw_call(table.probe, backend, out); }),
      fault_of<encore_option_list>(
          "option_schema", sizes,
          [&](auto* out) { return raw_call(table.option_schema, backend, out); }),
      fault_of<encore_device_info>(
          "device_info", sizes,
          [&](auto* out) { return raw_call(table.device_info, backend, device, out); }),
      fault_of<encore_device_memory>(
          "device_memory", sizes,
          [&](auto* out) { return raw_call(table.device_memory, backend, device, out); }),
      fault_of<encore_model_info>(
          "model_info", sizes,
          [&](auto* out) { return raw_call(table.model_info, filled.model, out); }),
      fault_of<encore_kv_info>("kv_info", sizes,
                               [&](auto* out) { return raw_call(table.kv_info, filled.kv, out); }),
  };
  for (std::string& fault : faults) {
    if (!fault.empty()) return std::move(fault);
  }
  return "";
}

Outcome on_outputs(const CheckContext& context, Sizes sizes) {
  const RawSession session(context);
  if (!session.ok()) return session.outcome();
  const RandomModel model = small_model();
  const WeightBridge bridge(*model.weights);
  Tailor exact(Cut::kExact);
  const Result<RawModel> loaded = raw_load(session, model, bridge, exact);
  if (!loaded.ok()) return skip("a small model does not load: " + loaded.status().to_string());
  const Result<RawKv> kv = raw_kv(session, loaded->get(), exact);
  if (!kv.ok()) return skip("no KV cache: " + kv.status().to_string());
  std::string fault = first_fault({session, loaded->get(), kv->get()}, sizes);
  return fault.empty() ? pass() : fail(std::move(fault));
}

}  // namespace

Outcome short_outputs_are_respected(const CheckContext& context) {
  return on_outputs(context, Sizes::kShorter);
}

Outcome long_outputs_keep_tails(const CheckContext& context) {
  return on_outputs(context, Sizes::kLonger);
}

Outcome short_errors_are_respected(const CheckContext& context) {
  const RawSession session(context);
  if (!session.ok()) return session.outcome();
  constexpr size_t kHeaderBytes = offsetof(encore_error, message);
  for (const size_t message_bytes : {size_t{4}, size_t{12}, size_t{20}}) {
    const size_t size = kHeaderBytes + message_bytes;
    OutputSlot<encore_error> slot(size);
    auto info = sdk::sized<encore_device_info>();
    const encore_status code =
        session.table().device_info(session.backend(), -1, &info, slot.get());
    if (code == ENCORE_OK) return skip("device_info succeeded for device -1");
    std::string what = "an error with room for ";
    what.append(std::to_string(message_bytes)).append(" bytes of message");
    if (const std::string fault = slot.fault(); !fault.empty()) {
      return fail(what.append(": the plugin ").append(fault));
    }
    if (slot.get()->message_size > message_bytes) {
      return fail(what.append(" says that its message has ")
                      .append(std::to_string(slot.get()->message_size)));
    }
  }
  return pass();
}

}  // namespace encore::check
