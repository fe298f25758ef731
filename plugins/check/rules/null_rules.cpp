// Rules E on pointers that the ABI allows to be null.
#include <string>

#include "error_rule_bodies.h"
#include "raw_plugin.h"
#include "raw_run.h"
#include "to_abi.h"

namespace encore::check {

// A plugin that follows one of them crashes, which the process of the rule reports.
Outcome null_pointers_are_not_followed(const CheckContext& context) {
  const RawSession session(context);
  if (!session.ok()) return session.outcome();
  const encore_backend_table& table = session.table();
  const RandomModel model = small_model();
  encore_model_spec spec = model_spec_to_abi(model.spec);
  spec.name = nullptr;
  spec.name_size = 0;
  const encore_weight_info* no_weights = nullptr;
  // Refused or not: the answer is the business of another rule.
  static_cast<void>(raw_call(table.model_check, table.backend, session.device(), &spec, no_weights,
                             uint64_t{0}, uint64_t{0}));
  if (table.stats != nullptr) {
    const encore_stat_fn ignore = [](void*, const char*, uint64_t, int64_t) {};
    void* no_context = nullptr;
    const RawResult asked = raw_call(table.stats, table.backend, ignore, no_context);
    if (!asked.ok()) return fail("stats with a null context: " + asked.status().to_string());
  }
  const WeightBridge bridge(*model.weights);
  Tailor exact(Cut::kExact);
  const Result<RawModel> loaded = raw_load(session, model, bridge, exact);
  if (!loaded.ok()) return skip("a small model does not load: " + loaded.status().to_string());
  const Result<RawKv> kv = raw_kv(session, loaded->get(), exact);
  if (!kv.ok()) return skip("no KV cache: " + kv.status().to_string());
  const encore_page_copy* no_copies = nullptr;
  const RawResult copied =
      raw_call(table.kv_copy, kv->get(), no_copies, uint64_t{0}, uint64_t{sizeof(*no_copies)});
  if (!copied.ok()) return fail("kv_copy of no pages: " + copied.status().to_string());
  return pass();
}

}  // namespace encore::check
