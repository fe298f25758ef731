#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/regex_syntax.h"

#include <pcre2.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <vector>

#include "text/unicode_additions.h"

namespace encore {
namespace {

// Unicode White_Space, which Oniguruma's \s means. PCRE2's own adds U+180E.
constexpr std::string_view kSpaces =
    R"(\x09-\x0d\x20\x85\xa0\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";

// What Oniguruma's \w and \b take for word characters where [\w] and [[:word:]] do not.
constexpr std::string_view kLatinNumbers = R"(\xb2\xb3\xb9\xbc-\xbe)";

struct Property {
  std::string_view alias, name;
  std::string_view newer;  // older characters that have it since Unicode 14
};
constexpr Property kProperties[] = {
    {"Alpha", "Alphabetic",
     R"(\x{363}-\x{36f}\x{c04}\x{f82}-\x{f83}\x{1dd3}-\x{1de6}\x{11080}-\x{11081})"},
    {"Lower", "Lowercase", R"(\x{10fc}\x{a7f2}-\x{a7f4}\x{ab69})"},
    {"Upper", "Uppercase", ""},
};

// PCRE2's \p{Han} means the script's extensions too, \p{sc:Han} the script, as in Oniguruma.
bool is_script(std::string_view name) {
  if (name.size() < 3) return false;  // general categories
  const std::string pattern = "\\p{sc:" + std::string(name) + "}";
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                   PCRE2_UTF, &error, &offset, nullptr);
  pcre2_code_free(code);
  return code != nullptr;
}

// What \p{name} matches, as members of a class.
std::string property_members(std::string_view name) {
  std::string_view newer;
  for (const Property& property : kProperties) {
    if (name != property.alias && name != property.name) continue;
    name = property.name;
    newer = property.newer;
  }
  std::string members = is_script(name) ? "\\p{sc:" : "\\p{";
  members.append(name).append("}").append(newer);
  const auto* addition =
      std::find_if(std::begin(kUnicodeAdditions), std::end(kUnicodeAdditions),
                   [&](const UnicodeAddition& entry) { return entry.property == name; });
  if (addition != std::end(kUnicodeAdditions)) members += addition->members;
  return members;
}

// [:word:] in Oniguruma's sense, as members of a class.
std::string word_members() {
  return property_members("Alphabetic") + property_members("M") + property_members("Nd") +
         "\\p{Pc}";
}

// What [:name:] matches, as members of a class; nothing for a name that PCRE2 would misread.
std::optional<std::string> posix_members(std::string_view name) {
  if (name == "alpha") return property_members("Alphabetic");
  if (name == "alnum") return property_members("Alphabetic") + property_members("Nd");
  if (name == "word") return word_members();
  if (name == "digit") return property_members("Nd");
  if (name == "space") return std::string(kSpaces);
  if (name == "blank") return "\\x09\\p{Zs}";
  if (name == "punct") return property_members("P") + property_members("S");
  if (name == "upper") return property_members("Uppercase");
  if (name == "lower") return property_members("Lowercase");
  if (name == "ascii" || name == "cntrl" || name == "xdigit") {
    return std::string("[:").append(name).append(":]");
  }
  return std::nullopt;
}

// What the escape \kind matches, as members of a class; nothing if it is no class in lower case.
std::optional<std::string> escape_members(char kind) {
  if (kind == 's') return std::string(kSpaces);
  if (kind == 'h') return "0-9a-fA-F";
  if (kind == 'd') return property_members("Nd");
  if (kind == 'w') return word_members();
  return std::nullopt;
}

class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  Result<std::string> run() {
    while (at_ < pattern_.size()) {
      const char c = pattern_[at_];
      if (c == '\\') {
        ENCORE_RETURN_IF_ERROR(escape());
      } else if (in_class_) {
        ENCORE_RETURN_IF_ERROR(class_member());
      } else if (c == '}' && peek(1) == '+') {
        return unsupported("a repeated interval ({n,m}+)");
      } else if (c == '(' && peek(1) == '?') {
        ENCORE_RETURN_IF_ERROR(group());
      } else {
        if (c == '[')
          open_class();
        else
          take(1);
      }
    }
    if (in_class_) out_.append("[").append(members_);  // for PCRE2 to refuse
    return std::move(out_);
  }

 private:
  char peek(size_t ahead) const {
    return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : '\0';
  }

  void take(size_t count) {
    (in_class_ ? members_ : out_) += pattern_.substr(at_, count);
    at_ += std::min(count, pattern_.size() - at_);
  }

  Status unsupported(std::string_view what) const {
    return unimplemented("tokenizer pattern \"" + std::string(pattern_) + "\" uses " +
                         std::string(what) + ", which Encore does not read");
  }

  void put_members(std::string_view members, bool negated) {
    if (!in_class_) {
      out_.append(negated ? "[^" : "[").append(members).append("]");
    } else if (negated) {
      complements_.emplace_back(members);
    } else {
      members_ += members;
    }
  }

  Status escape() {
    const char kind = peek(1);
    const bool upper = kind >= 'A' && kind <= 'Z';
    if (auto members = escape_members(upper ? static_cast<char>(kind - 'A' + 'a') : kind)) {
      if ((kind == 'w' || kind == 'W') && !in_class_) members->append(kLatinNumbers);
      put_members(*members, upper);
    } else if (kind == 'v') {
      put_members("\\x0b", false);
    } else if ((kind == 'b' || kind == 'B') && !in_class_) {
      put_boundary(kind == 'B');
    } else if ((kind == 'p' || kind == 'P' || kind == 'x') && peek(2) == '{') {
      return braced(kind);
    } else if (kind == 'p' || kind == 'P' || kind == 'Q' || kind == 'E' || kind == 'V') {
      return unsupported(std::string("the escape \\") + kind);
    } else {
      take(2);
      return {};
    }
    at_ += 2;
    return {};
  }

  void put_boundary(bool negated) {
    std::string word = "[";
    word.append(word_members()).append(kLatinNumbers).append("]");
    const std::string_view inside = negated ? "(?=" : "(?!";
    const std::string_view outside = negated ? "(?!" : "(?=";
    out_.append("(?:(?<=").append(word).append(")").append(inside).append(word);
    out_.append(")|(?<!").append(word).append(")").append(outside).append(word).append("))");
  }

  // \p{...}, \P{...} or \x{...}, whole: its brace is not an interval's.
  Status braced(char kind) {
    const size_t close = pattern_.find('}', at_);
    if (close == std::string_view::npos) return unsupported("an open brace");
    const std::string_view whole = pattern_.substr(at_, close + 1 - at_);
    if (kind == 'x') {
      take(whole.size());
      return {};
    }
    std::string_view name = whole.substr(3, whole.size() - 4);
    bool negated = kind == 'P';
    if (name.starts_with('^')) {
      negated = !negated;
      name.remove_prefix(1);
    }
    put_members(property_members(name), negated);
    at_ = close + 1;
    return {};
  }

  // The start of a group. Options have Ruby's meaning: m lets a dot match a line feed.
  Status group() {
    const size_t end = pattern_.find_first_not_of("abcdefghijklmnopqrstuvwxyzJRU-", at_ + 2);
    const char after = end < pattern_.size() ? pattern_[end] : '\0';
    if (end == at_ + 2 || (after != ')' && after != ':')) {
      take(2);
      return {};
    }
    out_ += "(?";
    for (at_ += 2; at_ < end; ++at_) {
      const char option = pattern_[at_];
      if (option != 'i' && option != 'm' && option != 'x' && option != '-') {
        return unsupported(std::string("the option ") + option);
      }
      out_ += option == 'm' ? 's' : option;
    }
    return {};
  }

  void open_class() {
    in_class_ = true;
    negated_ = peek(1) == '^';
    members_.clear();
    complements_.clear();
    at_ += negated_ ? 2 : 1;
    if (peek(0) == ']') {  // first in its class: a literal
      members_ += "\\]";
      ++at_;
    }
  }

  Status class_member() {
    if (peek(0) == '&' && peek(1) == '&') return unsupported("an intersection of classes (&&)");
    if (peek(0) == '[') {
      const size_t close = peek(1) == ':' ? pattern_.find(":]", at_ + 2) : std::string_view::npos;
      if (close == std::string_view::npos) return unsupported("a class within a class");
      std::string_view name = pattern_.substr(at_ + 2, close - at_ - 2);
      const bool negated = name.starts_with('^');
      if (negated) name.remove_prefix(1);
      const auto members = posix_members(name);
      if (!members) return unsupported(std::string("[:").append(name).append(":]"));
      put_members(*members, negated);
      at_ = close + 2;
      return {};
    }
    if (peek(0) == ']') {
      close_class();
    } else {
      take(1);
    }
    return {};
  }

  // PCRE2's classes have no complement of a set among their members, so that one becomes a choice
  // between classes, or in a negated class their intersection.
  void close_class() {
    in_class_ = false;
    ++at_;
    if (complements_.empty()) {
      put_members(members_, negated_);
      return;
    }
    out_ += "(?:";
    if (!members_.empty()) {
      out_.append(negated_ ? "(?![" : "[").append(members_).append(negated_ ? "])" : "]|");
    }
    for (size_t i = 0; i < complements_.size(); ++i) {
      const bool last = i + 1 == complements_.size();
      if (negated_) {
        out_.append(last ? "[" : "(?=[").append(complements_[i]).append(last ? "]" : "])");
      } else {
        out_.append("[^").append(complements_[i]).append(last ? "]" : "]|");
      }
    }
    out_ += ')';
  }

  std::string_view pattern_;
  size_t at_ = 0;
  std::string out_;

  bool in_class_ = false;
  bool negated_ = false;                  // the class
  std::string members_;                   // of the class so far
  std::vector<std::string> complements_;  // sets whose complements are members too
};

}  // namespace

Result<std::string> to_pcre2_syntax(std::string_view pattern) { return Translator(pattern).run(); }

}  // namespace encore
