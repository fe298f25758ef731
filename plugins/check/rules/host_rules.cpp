// Rules N on hosts whose structs are longer or shorter than the plugin's.
#include <cstring>
#include <string>

#include "encore/sdk/abi_struct.h"
#include "negotiation_rule_bodies.h"
#include "raw_run.h"
#include "to_abi.h"

namespace encore::check {
namespace {

constexpr uint32_t kNewerMinor = 99;

// Bytes that live as long as the process, as encore_host_info does.
FencedBytes& kept_bytes(size_t size) {
  auto* bytes = new FencedBytes(size);
  static auto* const kept = new std::vector<FencedBytes*>;
  kept->push_back(bytes);
  std::memset(bytes->data(), kPoison, size);
  return *bytes;
}

Outcome served(const CheckContext& context, const encore_host_info* host) {
  const RawSession session(context, host);
  if (!session.ok()) return fail("with such a host " + session.outcome().message);
  auto info = sdk::sized<encore_device_info>();
  const RawResult asked =
      raw_call(session.table().device_info, session.backend(), session.device(), &info);
  return asked.ok() ? pass() : fail("device_info: " + asked.status().to_string());
}

// A machine without the device can tell nothing about hosts.
bool usable(const CheckContext& context, Outcome* outcome) {
  const RawSession session(context);
  *outcome = session.outcome();
  return session.ok();
}

// The same model, handed over by this host and by another one.
Outcome runs_the_same(const CheckContext& context, Cut cut, const std::string& what) {
  const RawSession session(context);
  if (!session.ok()) return session.outcome();
  Tailor exact(Cut::kExact);
  const Result<RawRun> expected = raw_run(session, exact);
  if (!expected.ok()) return skip("a small model does not run: " + expected.status().to_string());
  Tailor other(cut);
  const Result<RawRun> found = raw_run(session, other);
  if (!found.ok()) return fail("with " + what + ": " + found.status().to_string());
  const std::string change = run_difference(*expected, *found);
  return change.empty() ? pass() : fail("with " + what + " " + change);
}

}  // namespace

Outcome older_host_is_served(const CheckContext& context) {
  Outcome skipped;
  if (!usable(context, &skipped)) return skipped;
  // Up to the minor version; behind it lies a page that cannot be read.
  constexpr size_t kFrozenBytes = offsetof(encore_host_info, version);
  encore_host_info host{};
  host.struct_size = kFrozenBytes;
  host.abi_major = ENCORE_ABI_MAJOR;
  host.abi_minor = 0;
  FencedBytes& bytes = kept_bytes(kFrozenBytes);
  std::memcpy(bytes.data(), &host, kFrozenBytes);
  return served(context, reinterpret_cast<const encore_host_info*>(bytes.data()));
}

Outcome newer_host_is_served(const CheckContext& context) {
  Outcome skipped;
  if (!usable(context, &skipped)) return skipped;
  encore_host_info host = *plain_host();
  host.struct_size = sizeof(host) + kExtraBytes;
  host.abi_minor = kNewerMinor;
  FencedBytes& bytes = kept_bytes(host.struct_size);
  std::memcpy(bytes.data(), &host, sizeof(host));
  return served(context, reinterpret_cast<const encore_host_info*>(bytes.data()));
}

Outcome long_inputs_change_nothing(const CheckContext& context) {
  return runs_the_same(context, Cut::kLonger, "structs that are longer than this version's");
}

Outcome short_inputs_are_respected(const CheckContext& context) {
  return runs_the_same(context, Cut::kShorter, "structs that end before their last fields");
}

Outcome strides_are_followed(const CheckContext& context) {
  const RawSession session(context);
  if (!session.ok()) return session.outcome();
  const RandomModel model = small_model();
  const WeightBridge bridge(*model.weights);
  Tailor exact(Cut::kExact);
  const Result<RawModel> loaded = raw_load(session, model, bridge, exact);
  if (!loaded.ok()) return skip("a small model does not load: " + loaded.status().to_string());
  const Result<RawKv> kv = raw_kv(session, loaded->get(), exact);
  if (!kv.ok()) return skip("no KV cache: " + kv.status().to_string());
  // Of two copies the second is right only if the stride is followed; page 99 does not exist.
  Tailor longer(Cut::kLonger);
  const auto copy = [&](const std::vector<encore_page_copy>& copies) {
    return raw_call(session.table().kv_copy, kv->get(), longer.array(copies), copies.size(),
                    longer.stride<encore_page_copy>());
  };
  if (const RawResult good = copy({{0, 1}, {1, 2}}); !good.ok()) {
    return fail("kv_copy of elements longer than this version's: " + good.status().to_string());
  }
  if (copy({{0, 1}, {1, 99}}).ok()) {
    return fail("kv_copy to page 99 of 16 succeeded: it did not look at the second element");
  }
  return pass();
}

}  // namespace encore::check
