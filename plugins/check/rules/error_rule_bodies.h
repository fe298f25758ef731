// The bodies of rules E, by the idea that they share.
#pragma once

#include "rule.h"

namespace encore::check {

// refusal_rules.cpp: devices, options, models and pages that a plugin must refuse.
Outcome missing_device_is_refused(const CheckContext& context);
Outcome failed_init_can_be_repeated(const CheckContext& context);
Outcome strange_model_is_refused(const CheckContext& context);
Outcome loading_refuses_what_checking_refuses(const CheckContext& context);
Outcome missing_page_is_refused(const CheckContext& context);

// weight_fault_rules.cpp: what goes wrong while weights are read.
Outcome missing_weight_is_refused(const CheckContext& context);
Outcome misshaped_weight_is_refused(const CheckContext& context);
Outcome load_is_cancelled(const CheckContext& context);
Outcome unreadable_weight_fails_the_load(const CheckContext& context);

// memory_limit_rules.cpp: more than there is.
Outcome large_kv_cache_is_refused(const CheckContext& context);
Outcome large_runner_is_refused(const CheckContext& context);

// null_rules.cpp: pointers that may be null.
Outcome null_pointers_are_not_followed(const CheckContext& context);

// step_fault_rules.cpp: steps that cannot be run, and waits.
Outcome wait_can_be_repeated(const CheckContext& context);
Outcome contradictory_batch_is_refused(const CheckContext& context);
Outcome refused_batch_changes_nothing(const CheckContext& context);

// process_rules.cpp: what belongs to the host.
Outcome signals_stay(const CheckContext& context);
Outcome floating_point_control_stays(const CheckContext& context);
Outcome affinity_stays(const CheckContext& context);
Outcome environment_stays(const CheckContext& context);

}  // namespace encore::check
