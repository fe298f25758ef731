// Libraries that load, and whose entry function, table or option schema is wrong.
#include <ostream>

#include "hostile_test_util.h"

namespace encore {
namespace {

struct Lie {
  const char* name;
  LoadCode code;
  StatusCode status;
  std::string words;
};

void PrintTo(const Lie& lie, std::ostream* out) { *out << lie.name; }

// The C plugin, which lies about one thing.
class HostileTableTest : public HostileTest, public testing::WithParamInterface<Lie> {};

TEST_P(HostileTableTest, IsRefused) {
  for (const bool probe : {true, false}) {  // the child and this process find the same
    tell(GetParam().name);
    load(test_plugin("c"), {.probe = probe});
    expect_refused(GetParam().code, GetParam().status, GetParam().words);
  }
}

std::string name_of_lie(const testing::TestParamInfo<Lie>& info) { return info.param.name; }

constexpr StatusCode kWrong = StatusCode::kFailedPrecondition;

INSTANTIATE_TEST_SUITE_P(
    Table, HostileTableTest,
    testing::Values(
        Lie{"entry_null", LoadCode::kEntryFailed, StatusCode::kInternal, "no message was given"},
        Lie{"entry_fails", LoadCode::kEntryFailed, StatusCode::kUnavailable, "no driver"},
        Lie{"message_unterminated", LoadCode::kEntryFailed, StatusCode::kInternal,
            std::string(996, 'x')},
        Lie{"message_not_utf8", LoadCode::kEntryFailed, StatusCode::kUnavailable,
            "driver \xEF\xBF\xBD( too old"},
        Lie{"magic", LoadCode::kMagic, kWrong, "Encore's magic number"},
        Lie{"major", LoadCode::kMajor, kWrong, "it speaks backend ABI 7.1, this host 1.1"},
        Lie{"size_zero", LoadCode::kTableSize, kWrong, "states a size of 0 bytes"},
        Lie{"size_small", LoadCode::kTableSize, kWrong, "states a size of 200 bytes"},
        Lie{"size_huge", LoadCode::kTableSize, kWrong, "states a size of 1099511627776 bytes"},
        Lie{"unaligned", LoadCode::kTableAddress, kWrong, "address is not a multiple of 8"},
        Lie{"function_null", LoadCode::kFunctionMissing, kWrong,
            "lacks required functions: kv_read, runner_wait;"},
        Lie{"name_empty", LoadCode::kIdentity, kWrong, "its name is ''"},
        Lie{"name_path", LoadCode::kIdentity, kWrong, "its name is '../etc'"},
        Lie{"name_long", LoadCode::kIdentity, kWrong, "1 to 64"}),
    name_of_lie);

INSTANTIATE_TEST_SUITE_P(
    Schema, HostileTableTest,
    testing::Values(
        Lie{"schema_fails", LoadCode::kSchema, StatusCode::kUnavailable, "no schema today"},
        Lie{"schema_null", LoadCode::kSchema, StatusCode::kInternal, "options = null"},
        Lie{"schema_count", LoadCode::kSchema, StatusCode::kInternal,
            "1152921504606846976; expected at most 256"},
        Lie{"schema_stride", LoadCode::kSchema, StatusCode::kInternal, "a stride of options = 0"},
        Lie{"schema_type", LoadCode::kSchema, StatusCode::kInternal,
            "the type of option 'speed' = 99"}),
    name_of_lie);

class HostileFunctionTest : public HostileTest, public testing::WithParamInterface<const char*> {};

TEST_P(HostileFunctionTest, IsRequired) {
  const std::string function = GetParam();
  tell("null_" + function);
  load(test_plugin("c"), {.probe = false});
  expect_refused(LoadCode::kFunctionMissing, kWrong,
                 "its table lacks required functions: " + function + ";");
}

std::string function_of(const testing::TestParamInfo<const char*>& info) { return info.param; }

INSTANTIATE_TEST_SUITE_P(Each, HostileFunctionTest,
                         testing::Values("probe", "option_schema", "init", "shutdown",
                                         "device_count", "device_info", "device_memory",
                                         "model_check", "model_load", "model_info", "model_free",
                                         "kv_create", "kv_info", "kv_copy", "kv_read", "kv_free",
                                         "eager_create", "prefill_capture", "decode_capture",
                                         "runner_check", "runner_submit", "runner_wait",
                                         "runner_free"),
                         function_of);

class HostileEntryTest : public HostileTest {};

// stats, selftest and get_extension are null in it.
TEST_F(HostileEntryTest, OptionalFunctionsMayBeNull) {
  load(test_plugin("c"));
  expect_loaded();
  ASSERT_TRUE(loaded_.has_value());
  EXPECT_EQ(loaded_->name, "c");
  EXPECT_EQ(loaded_->real_path, std::filesystem::canonical(test_plugin("c")));
  EXPECT_EQ(loaded_->abi.major, 1U);
  EXPECT_EQ(loaded_->effective_abi.minor, loaded_->abi.minor);
  EXPECT_EQ(loaded_->verdict, ProbeVerdict::kFresh);
}

TEST_F(HostileEntryTest, LibraryWithoutEntryIsOneClearLine) {
  load(test_plugin("no_entry"));
  EXPECT_EQ(failure_.message,
            "it exports no encore_backend_entry; it is a shared library, but not an Encore plugin");
  expect_refused(LoadCode::kNoEntry, kWrong, "not an Encore plugin");
}

TEST_F(HostileEntryTest, ExceptionInTheBackendsConstructorIsTheAdaptersError) {
  load(test_plugin("throwing"));
  expect_refused(LoadCode::kEntryFailed, StatusCode::kInternal,
                 "driver 470 is too old; 535 is needed");
}

}  // namespace
}  // namespace encore
