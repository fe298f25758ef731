#include "test_lines.h"

#include <cstdint>
#include <iterator>
#include <string_view>

#include "text/utf8.h"

namespace encore {
namespace {

constexpr uint32_t kSweepEnd = 0x32410;
constexpr uint32_t kSweepLength = 40;

// Knuth's MMIX generator; the high bits are the random ones.
class Random {
 public:
  // A number in [0, limit).
  uint32_t below(uint32_t limit) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(((state_ >> 32) * limit) >> 32);
  }

 private:
  uint64_t state_ = 20240612;
};

struct Script {
  uint32_t first, last;
};
constexpr Script kScripts[] = {
    {0x20, 0x7E},       {0x61, 0x7A},         {0x41, 0x5A},       {0x30, 0x39},
    {0x00, 0x1F},       {0x80, 0xFF},         {0x100, 0x24F},     {0x2B0, 0x36F},
    {0x370, 0x3FF},     {0x400, 0x52F},       {0x590, 0x5F4},     {0x600, 0x6FF},
    {0x900, 0x97F},     {0x980, 0xDFF},       {0xE00, 0xE5B},     {0xE80, 0xFFF},
    {0x10A0, 0x11FF},   {0x1780, 0x17FF},     {0x1E00, 0x1FFF},   {0x2000, 0x206F},
    {0x2070, 0x214F},   {0x2190, 0x2BFF},     {0x3000, 0x30FF},   {0x4E00, 0x9FFF},
    {0x4E00, 0x5200},   {0xAC00, 0xD7A3},     {0xE000, 0xE00F},   {0xFB00, 0xFDFF},
    {0xFE00, 0xFFFD},   {0x1D400, 0x1D7FF},   {0x1F300, 0x1FAFF}, {0x20000, 0x203FF},
    {0xF0000, 0xF000F}, {0x10FFF0, 0x10FFFF},
};

constexpr std::string_view kFragments[] = {
    " ",
    "  ",
    "   ",
    "\n",
    "\n\n",
    "\r\n",
    "\r",
    "\t",
    "\t\t",
    " \n ",
    "\xC2\xA0",
    "\xE3\x80\x80",
    "\xE2\x80\x8B",
    "\xE2\x80\x8D",
    "\xC2\x85",
    "\xE1\xA0\x8E",
    "\xEF\xBB\xBF",
    "\xE2\x96\x81",
    "'s",
    "'S",
    "'\xC5\xBF",
    "'re",
    "'LL",
    "don't",
    "It's",
    "we'VE",
    "0",
    "7",
    "42",
    "1234567",
    "3.14159",
    "1,000,000",
    "0xDEADBEEF",
    "1e-5",
    "\xC2\xBD",
    "\xE2\x85\xA7",
    "\xE0\xA5\xA7\xE0\xA5\xA8",
    "\xEF\xBC\x91\xEF\xBC\x92",
    "the",
    " the",
    "The quick brown fox",
    " internationalization",
    "snake_case",
    "camelCase",
    "CONSTANT_NAME",
    "def f(x):\n    return x + 1\n",
    "if (a != b) {",
    "}\n\n",
    "#include <vector>\n",
    "for (int i = 0; i < n; ++i)",
    "SELECT * FROM t WHERE id = 7;",
    "{\"key\": [1, 2, null]}",
    "<div class=\"x\">",
    "</table>",
    "https://example.org/a?b=c&d=%20",
    "/usr/local/bin",
    "C:\\temp\\new",
    "user@example.org",
    "...",
    "!!!",
    "??",
    "---",
    "======",
    "\xE2\x80\x94",
    "\xE2\x80\xA6",
    "$9.99",
    "\xE2\x82\xAC\x35",
    "50%",
    "e\xCC\x81",
    "\xC3\xA9",
    "A\xCC\x8A",
    "\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8",
    "\xEA\xB0\x80\xE1\x86\xA8",
    "\xCC\x81",
    "\xF0\x9F\x91\xA8\xE2\x80\x8D\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x91\xA7",
    "\xF0\x9F\x87\xAB\xF0\x9F\x87\xB7",
    "\xF0\x9F\x91\x8D\xF0\x9F\x8F\xBD",
    "\xE2\x9D\xA4\xEF\xB8\x8F",
    "\xE4\xBD\xA0\xE5\xA5\xBD\xEF\xBC\x8C\xE4\xB8\x96\xE7\x95\x8C",
    "\xE8\x81\xAA",
    "\xE3\x81\x93\xE3\x82\x93\xE3\x81\xAB\xE3\x81\xA1\xE3\x81\xAF",
    "\xE3\x82\xAB\xE3\x82\xBF",
    "\xEC\x95\x88\xEB\x85\x95\xED\x95\x98\xEC\x84\xB8\xEC\x9A\x94",
    "\xD0\x9F\xD1\x80\xD0\xB8\xD0\xB2\xD0\xB5\xD1\x82",
    "\xCE\x93\xCE\xB5\xCE\xB9\xCE\xAC",
    "\xD9\x85\xD8\xB1\xD8\xAD\xD8\xA8\xD8\xA7",
    "\xD7\xA9\xD7\x9C\xD7\x95\xD7\x9D",
    "\xE0\xA4\xA8\xE0\xA4\xAE\xE0\xA4\xB8\xE0\xA5\x8D\xE0\xA4\xA4\xE0\xA5\x87",
    "\xE0\xB8\xAA\xE0\xB8\xA7\xE0\xB8\xB1\xE0\xB8\xAA",
    "\xE1\xBA\xA5\xC6\xB0\xE1\xBB\x9D",
    "<0x41>",
    "<0xE8>",
    "<s>",
    "</s>",
    "<unk>",
    "<pad>",
    "<bos>",
    "<|im_start|>",
    "<|im_end|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|begin_of_text|>",
    "<|start_header_id|>",
    "<start_of_turn>",
    "<end_of_turn>",
    "<|fim_prefix|>",
    "<tool_call>",
    "</think>",
    "<repo_name>",
    "[INST]",
    "<\xEF\xBD\x9CUser\xEF\xBD\x9C>",
    "<\xEF\xBD\x9C\x65nd\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>",
    "<|im_",
    "|>",
    "<|",
    "<unused7>",
    "[multimodal]",
    "<table>",
    "<mask>",
};

std::string sweep_line(uint32_t first) {
  std::string line;
  for (uint32_t c = first; c < first + kSweepLength; ++c) {
    if (c < 0xD800 || c > 0xDFFF) append_utf8(c, line);
  }
  return line;
}

void append_random_piece(Random& random, std::string& line) {
  const uint32_t kind = random.below(20);
  if (kind < 10) {
    line += kFragments[random.below(std::size(kFragments))];
  } else if (kind < 12) {  // a run
    const std::string_view fragment = kFragments[random.below(std::size(kFragments))];
    for (uint32_t count = 2 + random.below(60); count > 0; --count) line += fragment;
  } else if (kind < 13) {  // bytes
    for (uint32_t count = 1 + random.below(8); count > 0; --count) {
      line.push_back(static_cast<char>(random.below(256)));
    }
  } else {
    const Script script = kScripts[random.below(std::size(kScripts))];
    for (uint32_t count = 1 + random.below(12); count > 0; --count) {
      append_utf8(script.first + random.below(script.last - script.first + 1), line);
    }
  }
}

}  // namespace

std::vector<std::string> make_test_lines() {
  std::vector<std::string> lines;
  for (uint32_t first = 0; first < kSweepEnd; first += kSweepLength) {
    lines.push_back(sweep_line(first));
  }
  Random random;
  while (lines.size() < kNumTestLines) {
    std::string line;
    const uint32_t pieces = 1 + random.below(random.below(8) == 0 ? 40 : 8);
    for (uint32_t i = 0; i < pieces; ++i) append_random_piece(random, line);
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace encore
