// The bodies of rules L, by the idea that they share.
#pragma once

#include "rule.h"

namespace encore::check {

// loading_rules.cpp: what loading alone does.
Outcome every_stage_passes(const CheckContext& context);
Outcome loads_without_device(const CheckContext& context);
Outcome asking_starts_nothing(const CheckContext& context);
Outcome table_stays_the_same(const CheckContext& context);
Outcome symbols_come_from_named_libraries(const CheckContext& context);

// rounds_rules.cpp: again and again.
Outcome rounds_leave_no_thread(const CheckContext& context);
Outcome rounds_leave_no_descriptor(const CheckContext& context);
Outcome rounds_leave_no_memory(const CheckContext& context);
Outcome works_again_after_shutdown(const CheckContext& context);

// company_rules.cpp: beside others, and what the process around it sees.
Outcome works_loaded_second(const CheckContext& context);
Outcome works_loaded_first(const CheckContext& context);
Outcome standard_output_stays_empty(const CheckContext& context);
Outcome process_ends_in_good_order(const CheckContext& context);

}  // namespace encore::check
