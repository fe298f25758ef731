// Rules E: errors and the state of the process.
#include "error_rule_bodies.h"
#include "rule.h"

namespace encore::check {
namespace {

constexpr Rule kRules[] = {
    {"E01", "A device that does not exist is refused", missing_device_is_refused},
    {"E02", "A failed init leaves it ready for another", failed_init_can_be_repeated},
    {"E03", "A model that it cannot run is refused by model_check", strange_model_is_refused},
    {"E04", "What model_check refuses model_load refuses", loading_refuses_what_checking_refuses},
    {"E05", "A model with a missing weight is refused", missing_weight_is_refused},
    {"E06", "A model with a weight of another shape is refused", misshaped_weight_is_refused},
    {"E07", "A load stops when it is told to", load_is_cancelled},
    {"E08", "A weight that cannot be read fails the load", unreadable_weight_fails_the_load},
    {"E09", "A KV cache too large for memory is refused", large_kv_cache_is_refused},
    {"E10", "Runners too large for memory are refused", large_runner_is_refused},
    {"E11", "A wait that runs out of time can be repeated", wait_can_be_repeated},
    {"E12", "A batch that contradicts itself is refused", contradictory_batch_is_refused, 120},
    {"E13", "A refused batch changes nothing", refused_batch_changes_nothing, 120},
    {"E14", "A KV page that does not exist is refused", missing_page_is_refused},
    {"E15", "Signals stay as they were", signals_stay},
    {"E16", "Floating-point control stays as it was", floating_point_control_stays},
    {"E17", "The calling thread's processors stay as they were", affinity_stays},
    {"E18", "Locale, folder, umask, variables and limits stay as they were", environment_stays},
    {"E19", "Pointers that may be null are not followed", null_pointers_are_not_followed},
};

}  // namespace

std::span<const Rule> error_rules() { return kRules; }

}  // namespace encore::check
