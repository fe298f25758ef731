// Rules P: speed, reported only.
#include "rule.h"

namespace encore::check {

std::span<const Rule> speed_rules() { return {}; }

}  // namespace encore::check
