// Rules L: loading, initialising, ending.
#include "load_rule_bodies.h"
#include "rule.h"

namespace encore::check {
namespace {

constexpr int32_t kRoundsTimeoutS = 180;

constexpr Rule kRules[] = {
    {"L01", "Every stage of loading passes", every_stage_passes, 90},
    {"L02", "Without device or driver it loads and gives a reason", loads_without_device, 90},
    {"L03", "Asking it starts nothing", asking_starts_nothing},
    {"L04", "The table is the same at every call", table_stays_the_same},
    {"L05", "100 rounds of init and shutdown leave no thread", rounds_leave_no_thread,
     kRoundsTimeoutS},
    {"L06", "100 rounds of init and shutdown leave no descriptor", rounds_leave_no_descriptor,
     kRoundsTimeoutS},
    {"L07", "100 rounds of init and shutdown leave no memory", rounds_leave_no_memory,
     kRoundsTimeoutS},
    {"L08", "After shutdown it can be initialised again and works", works_again_after_shutdown},
    {"L09", "It works beside another plugin that was loaded first", works_loaded_second},
    {"L10", "It works beside another plugin that is loaded later", works_loaded_first},
    {"L11", "Its symbols come from libraries that it names", symbols_come_from_named_libraries},
    {"L12", "Standard output is left to the host", standard_output_stays_empty},
    {"L13", "The process ends in good order", process_ends_in_good_order},
};

}  // namespace

std::span<const Rule> load_rules() { return kRules; }

}  // namespace encore::check
