// The bodies of rules N, by the idea that they share.
#pragma once

#include "rule.h"

namespace encore::check {

// host_rules.cpp: hosts of other versions.
Outcome older_host_is_served(const CheckContext& context);
Outcome newer_host_is_served(const CheckContext& context);
Outcome long_inputs_change_nothing(const CheckContext& context);
Outcome short_inputs_are_respected(const CheckContext& context);
Outcome strides_are_followed(const CheckContext& context);

// output_rules.cpp: what the plugin writes.
Outcome short_outputs_are_respected(const CheckContext& context);
Outcome long_outputs_keep_tails(const CheckContext& context);
Outcome short_errors_are_respected(const CheckContext& context);

// identity_rules.cpp: what the plugin says of itself.
Outcome extensions_are_found_by_name(const CheckContext& context);
Outcome identity_is_stable(const CheckContext& context);
Outcome schema_is_stable(const CheckContext& context);
Outcome devices_are_stable(const CheckContext& context);

}  // namespace encore::check
