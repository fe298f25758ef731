// The YAML reader refuses what could exhaust memory, the stack or a reader's patience.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "config/yaml_tree.h"

namespace encore {
namespace {

using ::testing::HasSubstr;

std::string error_of(const std::string& text) {
  const Result<YamlNode> node = parse_yaml(text, "a.yaml");
  EXPECT_FALSE(node.ok());
  return node.ok() ? "" : node.status().message();
}

TEST(YamlTreeTest, NodesRememberTheirLines) {
  const Result<YamlNode> node = parse_yaml("a: 1\nb:\n  - x\n  - 'y'\n", "a.yaml");
  ASSERT_TRUE(node.ok());
  ASSERT_EQ(node->entries.size(), 2U);
  EXPECT_EQ(node->entries[1].key.line, 2);
  const YamlNode& list = node->entries[1].value;
  ASSERT_EQ(list.items.size(), 2U);
  EXPECT_EQ(list.items[1].line, 4);
  EXPECT_TRUE(list.items[1].quoted);
  EXPECT_FALSE(list.items[0].quoted);
}

TEST(YamlLimitsTest, AliasesAndAnchorsAreRefused) {
  EXPECT_THAT(error_of("a: &x [1]\nb: *x\n"), HasSubstr("a.yaml:1: anchors (&name)"));
  std::string bomb = "a0: [x,x,x,x,x,x,x,x,x]\n";
  for (char i = '1'; i < '9'; ++i) {
    const char before = static_cast<char>(i - 1);
    bomb += {'a', i, ':', ' ', '[', '*', 'a', before, ',', '*', 'a', before, ']', '\n'};
  }
  EXPECT_THAT(error_of(bomb), HasSubstr("a.yaml:2: "));
}

TEST(YamlLimitsTest, TagsAreRefused) {
  EXPECT_THAT(error_of("a: !!python/object:os.system x\n"), HasSubstr("a.yaml:1: tag "));
}

TEST(YamlLimitsTest, SecondDocumentIsRefused) {
  EXPECT_THAT(error_of("a: 1\n---\nb: 2\n"), HasSubstr("a.yaml:3: a second document"));
}

TEST(YamlLimitsTest, DeepNestingIsRefusedAtTheLimit) {
  const auto nested = [](int levels) {
    return std::string(levels, '[') + "1" + std::string(levels, ']');
  };
  EXPECT_TRUE(parse_yaml(nested(kMaxYamlDepth), "a.yaml").ok());
  EXPECT_THAT(error_of(nested(kMaxYamlDepth + 1)), HasSubstr("nested deeper than 16 levels"));
  EXPECT_THAT(error_of(std::string(100'000, '[')), HasSubstr("a.yaml"));
}

TEST(YamlLimitsTest, ManyValuesAreRefused) {
  std::string text = "[";
  for (size_t i = 0; i < kMaxYamlNodes; ++i) text += "1,";
  EXPECT_THAT(error_of(text + "1]"), HasSubstr("more than 20000 values"));
}

TEST(YamlLimitsTest, LongFileIsRefused) {
  EXPECT_TRUE(parse_yaml(std::string(kMaxConfigBytes, '#'), "a.yaml").ok());
  EXPECT_EQ(error_of(std::string(kMaxConfigBytes + 1, '#')),
            "a.yaml is 1048577 bytes; a configuration file may have at most 1048576");
}

TEST(YamlLimitsTest, MapAsKeyIsRefused) {
  EXPECT_THAT(error_of("? {a: b}\n: c\n"), HasSubstr("a key must be a plain word"));
}

}  // namespace
}  // namespace encore
