#include "encore/loader/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace encore {
namespace {

using testing::ElementsAre;
using testing::Pair;

std::vector<OptionSchema> schema() {
  return {
      {.key = "threads",
       .type = OptionType::kInt,
       .default_value = "auto",
       .minimum = 1.0,
       .maximum = 64.0,
       .choices = {"auto"},
       .help = ""},
      {.key = "share",
       .type = OptionType::kFloat,
       .default_value = "0.5",
       .minimum = 0.0,
       .maximum = 1.0,
       .choices = {},
       .help = ""},
      {.key = "pin", .type = OptionType::kBool, .default_value = "true", .choices = {}, .help = ""},
      {.key = "isa",
       .type = OptionType::kEnum,
       .default_value = "avx2",
       .choices = {"avx2", "avx512"},
       .help = ""},
      {.key = "tag", .type = OptionType::kString, .default_value = "", .choices = {}, .help = ""},
      {.key = "seed", .type = OptionType::kInt, .default_value = "0", .choices = {}, .help = ""}};
}

using Given = std::vector<std::pair<std::string, std::string>>;

std::string error(const Given& given) {
  const Result<OptionValues> values = check_options(schema(), given);
  return values.ok() ? "ok" : values.status().message();
}

TEST(CheckOptionsTest, MissingKeysGetTheirDefaults) {
  const Result<OptionValues> values = check_options(schema(), Given{{"pin", "false"}});
  ASSERT_TRUE(values.ok());
  EXPECT_THAT(*values,
              ElementsAre(Pair("threads", "auto"), Pair("share", "0.5"), Pair("pin", "false"),
                          Pair("isa", "avx2"), Pair("tag", ""), Pair("seed", "0")));
}

TEST(CheckOptionsTest, LegalValuesPass) {
  EXPECT_EQ(error({{"threads", "64"}, {"share", "1"}, {"isa", "avx512"}, {"tag", "any thing"}}),
            "ok");
  EXPECT_EQ(error({{"threads", "auto"}, {"share", "2.5e-1"}}), "ok");
  EXPECT_EQ(error({{"seed", "-9223372036854775808"}}), "ok");  // no limits in the schema
}

TEST(CheckOptionsTest, UnknownKeyNamesTheNearestKnownOne) {
  EXPECT_EQ(error({{"thread", "2"}}),
            "backend option 'thread' is unknown; the nearest known key is 'threads'");
  EXPECT_EQ(error({{"ias", "avx2"}}),
            "backend option 'ias' is unknown; the nearest known key is 'isa'");
  EXPECT_EQ(check_options({}, Given{{"a", "b"}}).status().message(),
            "backend option 'a' is unknown; this backend has no options");
}

TEST(CheckOptionsTest, WrongValuesNameTheLimits) {
  EXPECT_EQ(error({{"threads", "0"}}),
            "backend option 'threads' is '0'; it must be a whole number from 1 to 64 or one of: "
            "auto");
  EXPECT_EQ(error({{"threads", "2.5"}}),
            "backend option 'threads' is '2.5'; it must be a whole number from 1 to 64 or one of: "
            "auto");
  EXPECT_EQ(error({{"share", "1.01"}}),
            "backend option 'share' is '1.01'; it must be a number from 0 to 1");
  EXPECT_EQ(error({{"share", "nan"}}),
            "backend option 'share' is 'nan'; it must be a number from 0 to 1");
  EXPECT_EQ(error({{"seed", "12x"}}), "backend option 'seed' is '12x'; it must be a whole number");
  EXPECT_EQ(error({{"seed", "9223372036854775808"}}),
            "backend option 'seed' is '9223372036854775808'; it must be a whole number");
  EXPECT_EQ(error({{"pin", "yes"}}), "backend option 'pin' is 'yes'; it must be true or false");
  EXPECT_EQ(error({{"isa", "AVX2"}}),
            "backend option 'isa' is 'AVX2'; it must be one of: avx2, avx512");
}

TEST(CheckOptionsTest, KeyGivenTwiceIsRefused) {
  EXPECT_EQ(error({{"pin", "true"}, {"pin", "false"}}), "backend option 'pin' is given twice");
}

}  // namespace
}  // namespace encore
