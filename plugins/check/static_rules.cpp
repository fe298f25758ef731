// Rules S: the file.
#include "rule.h"

namespace encore::check {

std::span<const Rule> static_rules() { return {}; }

}  // namespace encore::check
