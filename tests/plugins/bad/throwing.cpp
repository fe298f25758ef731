// A plugin whose backend cannot even be constructed.
#include <stdexcept>

#include "encore/sdk/backend_plugin.h"
#include "fake_backend.h"

namespace {

class ThrowingBackend : public encore::FakeBackend {
 public:
  ThrowingBackend() { throw std::runtime_error("driver 470 is too old; 535 is needed"); }
};

}  // namespace

ENCORE_EXPORT_BACKEND(ThrowingBackend)
