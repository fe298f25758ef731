// Rules E: errors and the state of the process.
#include "rule.h"

namespace encore::check {

std::span<const Rule> error_rules() { return {}; }

}  // namespace encore::check
