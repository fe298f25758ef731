#include "text/tokenizer_json_sax.h"

#include <limits>

namespace encore {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxDepth = 64;
constexpr size_t kMaxFileBytes = size_t{1} << 30;

// nlohmann's event interface, its names included. Values go to the tree, except inside model.vocab
// and model.merges, which fill the flat arrays.
class Reader final : public nlohmann::json_sax<Json> {
 public:
  explicit Reader(TokenizerJson& out) : out_(out) {}

  const std::string& error() const { return error_; }

  bool null() override { return value(nullptr); }
  bool boolean(bool flag) override { return value(flag); }
  bool number_integer(number_integer_t number) override { return integer(number); }
  bool number_unsigned(number_unsigned_t number) override {
    if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return fail("a number is out of range");
    }
    return integer(static_cast<int64_t>(number));
  }
  bool number_float(number_float_t number, const string_t&) override { return value(number); }
  bool binary(binary_t&) override { return fail("binary data"); }

  bool string(string_t& text) override {
    if (mode_ == Mode::kMerges) return merge_text(text);
    return value(std::move(text));
  }

  bool key(string_t& text) override {
    if (mode_ == Mode::kVocabulary) {
      pending_ = store(text);
      return true;
    }
    key_ = std::move(text);
    if (stack_.size() == 1) section_ = key_;
    return true;
  }

  bool start_object(size_t) override {
    if (mode_ != Mode::kTree) return fail("an object inside the vocabulary or the merges");
    if (at_model_member("vocab")) {
      if (!out_.vocabulary.empty()) return fail("two vocabularies");
      mode_ = Mode::kVocabulary;
      return true;
    }
    return open(Json::object());
  }
  bool end_object() override {
    if (mode_ == Mode::kVocabulary) {
      mode_ = Mode::kTree;
      return true;
    }
    stack_.pop_back();
    return true;
  }

  bool start_array(size_t) override {
    if (mode_ == Mode::kVocabulary) return fail("an array inside the vocabulary");
    if (mode_ == Mode::kMerges) {
      if (in_pair_) return fail("a merge inside a merge");
      in_pair_ = true;
      pair_size_ = 0;
      return true;
    }
    if (at_model_member("merges")) {
      if (!out_.merges.empty()) return fail("two lists of merges");
      mode_ = Mode::kMerges;
      return true;
    }
    return open(Json::array());
  }
  bool end_array() override {
    if (mode_ == Mode::kTree) {
      stack_.pop_back();
      return true;
    }
    if (!in_pair_) {
      mode_ = Mode::kTree;
      return true;
    }
    in_pair_ = false;
    return pair_size_ == 2 || fail("a merge that is not two texts");
  }

  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& e) override {
    return fail(e.what());
  }

 private:
  enum class Mode { kTree, kVocabulary, kMerges };

  bool fail(std::string_view why) {
    if (error_.empty()) error_ = why;
    return false;
  }

  bool at_model_member(std::string_view name) const {
    return stack_.size() == 2 && section_ == "model" && stack_.back()->is_object() && key_ == name;
  }

  Json* attach(Json value) {
    if (stack_.empty()) {
      out_.root = std::move(value);
      return &out_.root;
    }
    Json& parent = *stack_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    return &(parent[key_] = std::move(value));
  }

  bool value(Json value) {
    if (mode_ != Mode::kTree)
      return fail("the vocabulary or the merges hold a value of wrong type");
    attach(std::move(value));
    return true;
  }

  bool open(Json value) {
    if (stack_.size() >= kMaxDepth) return fail("nesting deeper than 64");
    stack_.push_back(attach(std::move(value)));
    return true;
  }

  bool integer(int64_t number) {
    if (mode_ != Mode::kVocabulary) return value(number);
    if (number < 0 || number >= Vocabulary::kMaxTokens) {
      return fail("token id " + std::to_string(number) + " is outside 0.." +
                  std::to_string(Vocabulary::kMaxTokens - 1));
    }
    out_.vocabulary.push_back({pending_.offset, pending_.length, static_cast<int32_t>(number)});
    return true;
  }

  TokenizerJson::Text store(std::string_view text) {
    const auto offset = static_cast<uint32_t>(out_.arena.size());
    out_.arena += text;
    return {offset, static_cast<uint32_t>(text.size())};
  }

  bool merge_text(std::string_view text) {
    if (in_pair_) {
      const TokenizerJson::Text side = store(text);
      ++pair_size_;
      if (pair_size_ == 1) out_.merges.emplace_back(side, TokenizerJson::Text{});
      if (pair_size_ == 2) out_.merges.back().second = side;
      return pair_size_ <= 2 || fail("a merge of more than two texts");
    }
    if (text.starts_with("#version")) return true;
    const size_t space = text.find(' ');
    if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos) {
      return fail("the merge \"" + std::string(text) + "\" is not two texts around one space");
    }
    const TokenizerJson::Text left = store(text.substr(0, space));
    out_.merges.emplace_back(left, store(text.substr(space + 1)));
    return true;
  }

  TokenizerJson& out_;
  Mode mode_ = Mode::kTree;
  std::vector<Json*> stack_;  // open containers; a parent does not grow while its child is open
  std::string section_, key_, error_;
  TokenizerJson::Text pending_{};
  bool in_pair_ = false;
  int pair_size_ = 0;
};

}  // namespace

Result<TokenizerJson> parse_tokenizer_json(std::string_view file) {
  if (file.size() > kMaxFileBytes) {
    return data_loss("tokenizer.json has " + std::to_string(file.size()) + " bytes; the limit is " +
                     std::to_string(kMaxFileBytes));
  }
  TokenizerJson out;
  Reader reader(out);
  try {
    if (Json::sax_parse(file, &reader)) return out;
  } catch (const std::exception& e) {
    return data_loss(std::string("tokenizer.json: ") + e.what());
  }
  return data_loss("tokenizer.json: " + reader.error());
}

}  // namespace encore
