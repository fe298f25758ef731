// Malformed UTF-8. The expected texts are Python's bytes.decode("utf-8", "replace").
#include "text/utf8.h"

#include <gtest/gtest.h>

namespace encore {
namespace {

std::string replaced(std::string text) {
  for (size_t at; (at = text.find('?')) != std::string::npos;) text.replace(at, 1, "\xEF\xBF\xBD");
  return text;
}

TEST(Utf8Test, MaximalSubpartsBecomeOneReplacementEach) {
  EXPECT_EQ(replace_malformed_utf8("a\xFF\xFE"
                                   "b"),
            replaced("a??b"));
  EXPECT_EQ(replace_malformed_utf8("\xE2\x96"
                                   "a"),
            replaced("?a"));                                                // cut in the middle
  EXPECT_EQ(replace_malformed_utf8("\xF0\x9F\x91"), replaced("?"));         // cut at the end
  EXPECT_EQ(replace_malformed_utf8("\xC0\x80"), replaced("??"));            // overlong
  EXPECT_EQ(replace_malformed_utf8("\xE0\x9F\xBF"), replaced("???"));       // overlong
  EXPECT_EQ(replace_malformed_utf8("\xED\xA0\x80"), replaced("???"));       // surrogate
  EXPECT_EQ(replace_malformed_utf8("\xF4\x90\x80\x80"), replaced("????"));  // above U+10FFFF
  EXPECT_EQ(replace_malformed_utf8("\xF0\x9F\x98\x80"), "\xF0\x9F\x98\x80");
}

TEST(Utf8Test, AssemblyDoesNotDependOnChunks) {
  const std::string bytes = "a\xE8\x81\xAA\xF0\x9F\xFF\xE2\x96z\xED\xA0\x80\xF0\x9F\x98";
  for (size_t chunk = 1; chunk <= bytes.size(); ++chunk) {
    Utf8Assembler assembler;
    std::string joined;
    for (size_t at = 0; at < bytes.size(); at += chunk) {
      const std::string part = assembler.push(bytes.substr(at, chunk));
      EXPECT_TRUE(is_valid_utf8(part));
      joined += part;
    }
    EXPECT_EQ(joined + assembler.finish(), replace_malformed_utf8(bytes)) << chunk;
  }
}

TEST(Utf8Test, CodePointsAreSpelled) {
  for (const auto& [code_point, text] : {std::pair<uint32_t, const char*>{0x41, "A"},
                                         {0xE9, "\xC3\xA9"},
                                         {0x2581, "\xE2\x96\x81"},
                                         {0x1F600, "\xF0\x9F\x98\x80"}}) {
    std::string spelled;
    append_utf8(code_point, spelled);
    EXPECT_EQ(spelled, text);
    EXPECT_EQ(utf8_step(spelled, 0).code_point, code_point);
  }
}

}  // namespace
}  // namespace encore
