#include "text/regex_syntax.h"

#include <algorithm>

#include "text/unicode_additions.h"

namespace encore {
namespace {

// Unicode White_Space, which Oniguruma's \s means. PCRE2's own adds U+180E.
constexpr std::string_view kSpaces =
    R"(\x09-\x0d\x20\x85\xa0\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";

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
      } else {
        if (c == '[')
          open_class();
        else
          take(1);
      }
    }
    return std::move(out_);
  }

 private:
  char peek(size_t ahead) const {
    return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : '\0';
  }

  void take(size_t count) {
    out_ += pattern_.substr(at_, count);
    at_ += std::min(count, pattern_.size() - at_);
  }

  Status unsupported(std::string_view what) const {
    return unimplemented("tokenizer pattern \"" + std::string(pattern_) + "\" uses " +
                         std::string(what) + ", which Encore does not read");
  }

  void put_members(std::string_view members, bool negated) {
    if (!in_class_) out_ += negated ? "[^" : "[";
    out_ += members;
    if (!in_class_) out_ += ']';
  }

  Status escape() {
    const char kind = peek(1);
    if (kind == 's' || (kind == 'S' && !in_class_)) {
      put_members(kSpaces, kind == 'S');
      at_ += 2;
    } else if (kind == 'h') {
      put_members("0-9a-fA-F", false);
      at_ += 2;
    } else if ((kind == 'p' || kind == 'P' || kind == 'x') && peek(2) == '{') {
      return braced(kind);
    } else {
      take(2);
    }
    return {};
  }

  // \p{...}, \P{...} or \x{...}, whole: its brace is not an interval's.
  Status braced(char kind) {
    const size_t close = pattern_.find('}', at_);
    if (close == std::string_view::npos) return unsupported("an open brace");
    const std::string_view whole = pattern_.substr(at_, close + 1 - at_);
    const std::string_view name = whole.substr(3, whole.size() - 4);
    const auto* addition =
        std::find_if(std::begin(kUnicodeAdditions), std::end(kUnicodeAdditions),
                     [&](const UnicodeAddition& entry) { return entry.property == name; });
    const bool negated = kind == 'P';
    if (kind == 'x' || addition == std::end(kUnicodeAdditions) || (negated && in_class_)) {
      take(whole.size());
      return {};
    }
    std::string members = "\\p{";
    members.append(name).append("}").append(addition->members);
    put_members(members, negated);
    at_ = close + 1;
    return {};
  }

  void open_class() {
    in_class_ = true;
    take(peek(1) == '^' ? 2 : 1);
    if (peek(0) == ']') {  // first in its class: a literal
      out_ += "\\]";
      ++at_;
    }
  }

  Status class_member() {
    if (peek(0) == '&' && peek(1) == '&') return unsupported("an intersection of classes (&&)");
    if (peek(0) == '[') {
      const size_t close = peek(1) == ':' ? pattern_.find(":]", at_ + 2) : std::string_view::npos;
      if (close == std::string_view::npos) return unsupported("a class within a class");
      take(close + 2 - at_);
      return {};
    }
    if (peek(0) == ']') in_class_ = false;
    take(1);
    return {};
  }

  std::string_view pattern_;
  size_t at_ = 0;
  bool in_class_ = false;
  std::string out_;
};

}  // namespace

Result<std::string> to_pcre2_syntax(std::string_view pattern) { return Translator(pattern).run(); }

}  // namespace encore
