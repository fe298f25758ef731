// The fake backend under a name of ENCORE_TEST_NAME and a vendor of ENCORE_TEST_VENDOR. It is not
// usable if ENCORE_TEST_ABSENT is 1, and fails its self-test if ENCORE_TEST_UNFIT is 1. Its option
// "level" is the one that a manifest's variants are forced by.
#include "encore/sdk/backend_plugin.h"
#include "fake_backend.h"

namespace {

class NamedBackend : public encore::FakeBackend {
 public:
  encore::BackendIdentity identity() const override {
    return {.name = ENCORE_TEST_NAME,
            .vendor = ENCORE_TEST_VENDOR,
            .version = "2.0",
            .build_id = "named-build"};
  }
  encore::ProbeResult probe() const override {
    if (ENCORE_TEST_ABSENT != 0) return {.usable = false, .reason = "there is no Acme card"};
    return {.usable = true, .reason = ""};
  }
  std::vector<encore::OptionSchema> option_schema() const override {
    return {{.key = "level",
             .type = encore::OptionType::kEnum,
             .default_value = "auto",
             .choices = {"auto", "high", "low"},
             .help = "The variant."}};
  }
  encore::Status selftest(int32_t /*device*/) override {
    if (ENCORE_TEST_UNFIT == 0) return {};
    return encore::internal_error("2 + 2 is 5 here");
  }
};

}  // namespace

ENCORE_EXPORT_BACKEND(NamedBackend)
