#include "built_level.h"

namespace encore::kernels {

IsaLevel built_level() { return kBuiltLevel; }

}  // namespace encore::kernels
