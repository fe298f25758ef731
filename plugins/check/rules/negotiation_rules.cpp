// Rules N: versions, sizes, unknown extensions.
#include "negotiation_rule_bodies.h"
#include "rule.h"

namespace encore::check {
namespace {

constexpr Rule kRules[] = {
    {"N01", "A host that knows the frozen fields only is served", older_host_is_served},
    {"N02", "A host of a newer minor version is served", newer_host_is_served},
    {"N03", "Outputs are written no further than the host says", short_outputs_are_respected},
    {"N04", "Outputs longer than the plugin knows keep their tails", long_outputs_keep_tails},
    {"N05", "Inputs longer than the plugin knows change nothing", long_inputs_change_nothing},
    {"N06", "Inputs are read no further than the host says", short_inputs_are_respected},
    {"N07", "Array elements are reached by their stride", strides_are_followed},
    {"N08", "Unknown extensions are null, known ones are sized", extensions_are_found_by_name},
    {"N09", "Its name, vendor, version and build do not change", identity_is_stable},
    {"N10", "Its option schema is sane and does not change", schema_is_stable},
    {"N11", "Devices keep their number and names", devices_are_stable},
    {"N12", "Errors are written no further than the host says", short_errors_are_respected},
};

}  // namespace

std::span<const Rule> negotiation_rules() { return kRules; }

}  // namespace encore::check
