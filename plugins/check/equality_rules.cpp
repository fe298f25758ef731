// Rules R: what runners compute.
#include "rule.h"

namespace encore::check {

std::span<const Rule> equality_rules() { return {}; }

}  // namespace encore::check
