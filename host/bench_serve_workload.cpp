#include "bench_serve_workload.h"

#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

namespace encore {
namespace {

constexpr int32_t kMaxLength = 1 << 20;

constexpr std::array<std::string_view, 120> kWords = {
    "about",   "after",   "again",   "air",    "all",      "animal", "answer", "apple",
    "ask",     "away",    "back",    "bank",   "bed",      "before", "best",   "bird",
    "black",   "blue",    "boat",    "book",   "box",      "bread",  "bridge", "bring",
    "brother", "build",   "call",    "car",    "carry",    "chair",  "change", "child",
    "city",    "clean",   "clear",   "close",  "cloud",    "cold",   "color",  "come",
    "corner",  "country", "day",     "deep",   "door",     "draw",   "dream",  "drive",
    "early",   "earth",   "east",    "eight",  "evening",  "every",  "eye",    "face",
    "family",  "farm",    "field",   "fire",   "first",    "fish",   "floor",  "flower",
    "follow",  "food",    "forest",  "four",   "friend",   "garden", "glass",  "gold",
    "grass",   "green",   "group",   "half",   "hand",     "happy",  "hill",   "horse",
    "house",   "hundred", "island",  "join",   "keep",     "kind",   "king",   "lake",
    "land",    "large",   "leaf",    "letter", "light",    "listen", "long",   "machine",
    "market",  "moon",    "morning", "mother", "mountain", "music",  "night",  "north",
    "number",  "ocean",   "open",    "paper",  "people",   "place",  "plant",  "question",
    "river",   "road",    "school",  "season", "stone",    "street", "summer", "table"};

// From 0 to count - 1; the bias of a remainder is below 2^-40 for counts that occur.
uint64_t draw_below(std::mt19937_64& random, uint64_t count) { return random() % count; }

bool read_number(std::string_view text, int32_t& value) {
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && rest == end;
}

}  // namespace

std::string LengthRange::text() const {
  if (spread == 0) return std::to_string(mean);
  return std::to_string(shortest()) + " to " + std::to_string(longest());
}

Result<LengthRange> parse_length(const std::string& text) {
  const size_t colon = text.find(':');
  LengthRange range;
  const std::string_view whole = text;
  const bool read =
      read_number(whole.substr(0, colon), range.mean) &&
      (colon == std::string::npos || read_number(whole.substr(colon + 1), range.spread));
  if (read && range.mean >= 1 && range.mean <= kMaxLength && range.spread >= 0 &&
      range.spread < range.mean && range.spread <= kMaxLength - range.mean) {
    return range;
  }
  return invalid_argument("the length is \"" + text +
                          "\"; it must be MEAN or MEAN:SPREAD, such as 128 or 128:32, with every "
                          "length from 1 to 1048576");
}

int32_t draw_length(std::mt19937_64& random, const LengthRange& range) {
  const auto choices = static_cast<uint64_t>(range.longest() - range.shortest()) + 1;
  return range.shortest() + static_cast<int32_t>(draw_below(random, choices));
}

std::string random_words(std::mt19937_64& random, int32_t count) {
  std::string text;
  for (int32_t i = 0; i < count; ++i) {
    if (i > 0) text += ' ';
    text += kWords[draw_below(random, kWords.size())];
  }
  return text;
}

std::vector<int32_t> random_ids(std::mt19937_64& random, const std::vector<int32_t>& pool,
                                int32_t count) {
  std::vector<int32_t> ids(static_cast<size_t>(count));
  for (int32_t& id : ids) id = pool[draw_below(random, pool.size())];
  return ids;
}

std::string all_words() {
  std::string text;
  for (const std::string_view word : kWords) {
    text += ' ';
    text += word;
  }
  return text;
}

std::string load_body(const LoadPrompt& prompt, const LoadBodyOptions& options) {
  nlohmann::ordered_json body = {{"model", options.model}};
  const nlohmann::ordered_json text =
      std::visit([](const auto& value) { return nlohmann::ordered_json(value); }, prompt.text);
  if (options.chat) {
    body["messages"] = nlohmann::ordered_json::array({{{"role", "user"}, {"content", text}}});
  } else {
    body["prompt"] = text;
  }
  body["max_tokens"] = prompt.max_tokens;
  body["temperature"] = options.temperature;
  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}};
  if (options.ignore_eos) body["ignore_eos"] = true;
  return body.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::vector<double> arrival_times(std::mt19937_64& random, int64_t count, double rate) {
  std::vector<double> times(static_cast<size_t>(count), 0.0);
  if (!std::isfinite(rate)) return times;
  double now_s = 0.0;
  for (size_t i = 1; i < times.size(); ++i) {
    const double uniform = static_cast<double>(random() >> 11) * 0x1p-53;  // [0, 1)
    now_s -= std::log1p(-uniform) / rate;
    times[i] = now_s;
  }
  return times;
}

}  // namespace encore
