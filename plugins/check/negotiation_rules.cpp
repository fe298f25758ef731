// Rules N: versions, sizes, unknown extensions.
#include "rule.h"

namespace encore::check {

std::span<const Rule> negotiation_rules() { return {}; }

}  // namespace encore::check
