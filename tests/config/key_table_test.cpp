// The key table: complete, documented, and near enough to mistyped keys.
#include "config/key_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "config/config_loader.h"
#include "config/reference.h"
#include "config/suggest.h"

namespace encore {
namespace {

using ::testing::HasSubstr;

TEST(KeyTableTest, NamesAreDistinctAndHelpIsASentence) {
  std::set<std::string_view> names;
  for (const KeyInfo& key : config_keys()) {
    EXPECT_TRUE(names.insert(key.name).second) << key.name;
    EXPECT_TRUE(key.help.ends_with('.')) << key.name;
    EXPECT_EQ(find_key(key.name), &key);
  }
}

TEST(KeyTableTest, EveryFieldBelongsToOneKey) {
  // Two keys that pointed at the same member would overwrite each other.
  Config config;
  std::set<const void*> fields;
  for (const KeyInfo& key : config_keys()) {
    const void* field = std::visit([](auto* at) -> const void* { return at; }, key.field(config));
    EXPECT_TRUE(fields.insert(field).second) << key.name;
  }
}

TEST(KeyTableTest, EveryDefaultMayBeWrittenInAFile) {
  const Config defaults;
  for (const KeyInfo& key : config_keys()) {
    const std::string name(key.name);
    const size_t dot = name.find('.');
    const std::string text =
        name.substr(0, dot) + ": {" + name.substr(dot + 1) + ": " + show(key, defaults) + "}\n";
    LoadedConfig loaded;
    const Status status = apply_yaml(text, "a.yaml", loaded);
    EXPECT_TRUE(status.ok()) << text << status.to_string();
    EXPECT_EQ(show(key, loaded.config), show(key, defaults)) << name;
  }
}

TEST(KeyTableTest, DocumentationHoldsTheGeneratedReference) {
  std::ifstream stream(std::string(ENCORE_SOURCE_DIR) + "/docs/configuration.md");
  ASSERT_TRUE(stream) << "docs/configuration.md is missing";
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  EXPECT_THAT(text, HasSubstr(config_reference_markdown()))
      << "put the output of `encore config keys` between the markers";
}

TEST(SuggestTest, DistanceCountsEditsAndSwaps) {
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(edit_distance("ab", "ba"), 1U);
  EXPECT_EQ(edit_distance("max_context", "max_context"), 0U);
  EXPECT_EQ(edit_distance(std::string(1000, 'a'), std::string(1000, 'b')), 128U);
}

TEST(SuggestTest, FarWordsSuggestNothing) {
  const std::vector<std::string> words = {"page_size", "dtype"};
  EXPECT_EQ(nearest("pagesize", words), "page_size");
  EXPECT_EQ(nearest("temperature", words), "");
  EXPECT_EQ(nearest("", words), "");
}

}  // namespace
}  // namespace encore
