#include "openai/json_body.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "text/utf8.h"

namespace encore {
namespace {

// An array or object whose end has not been read.
struct Container {
  bool is_object = false;
  BodyJson::array_t elements;
  std::vector<std::pair<std::string, BodyJson>> members;
  std::string key;  // of the member that comes next
};

// nlohmann's object looks through all its keys for a double of each new one, and copies its
// members, whole trees, whenever it grows. Filled at once, it does neither.
BodyJson to_json(Container container) {
  if (!container.is_object) return BodyJson(std::move(container.elements));
  BodyJson object = BodyJson::object();
  BodyJson::object_t::Container& members = object.get_ref<BodyJson::object_t&>();
  members.reserve(container.members.size());
  for (auto& [key, value] : container.members) {
    members.emplace_back(std::move(key), std::move(value));
  }
  return object;
}

// nlohmann's event interface, its names included.
class BodyReader final : public nlohmann::json_sax<BodyJson> {
 public:
  explicit BodyReader(BodyJson& root) : root_(root) {}

  const std::string& error() const { return error_; }

  bool null() override { return value(nullptr); }
  bool boolean(bool flag) override { return value(flag); }
  bool number_integer(number_integer_t number) override { return value(number); }
  bool number_unsigned(number_unsigned_t number) override { return value(number); }
  bool number_float(number_float_t number, const string_t&) override { return value(number); }
  bool string(string_t& text) override { return value(std::move(text)); }
  bool binary(binary_t&) override { return fail("binary data"); }

  bool key(string_t& text) override {
    open_.back().key = std::move(text);
    return true;
  }

  bool start_object(size_t) override { return open(/*is_object=*/true); }
  bool start_array(size_t) override { return open(/*is_object=*/false); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception& e) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 5: syntax error while parsing
    // value - unexpected end of input; last read: '...'": the place and the reason, not the quote,
    // which may be as long as the body.
    std::string_view what = e.what();
    what = what.substr(std::min(what.find("] ") + 2, what.size()));
    what = what.substr(0, what.find("; last read"));
    if (e.id == 406) {  // a number overflows; its text is quoted first
      return fail("the number that ends at byte " + std::to_string(position) + " is out of range");
    }
    return fail(what);
  }

 private:
  bool fail(std::string_view why) {
    if (error_.empty()) error_ = why;
    return false;
  }

  bool count() {
    if (++num_values_ <= kMaxBodyValues) return true;
    return fail("it holds more than " + std::to_string(kMaxBodyValues) + " values");
  }

  void attach(BodyJson child) {
    if (open_.empty()) {
      root_ = std::move(child);
    } else if (Container& parent = open_.back(); parent.is_object) {
      parent.members.emplace_back(std::move(parent.key), std::move(child));
    } else {
      parent.elements.push_back(std::move(child));
    }
  }

  bool value(BodyJson child) {
    if (!count()) return false;
    attach(std::move(child));
    return true;
  }

  bool open(bool is_object) {
    if (open_.size() >= kMaxBodyDepth) {
      return fail("it nests deeper than " + std::to_string(kMaxBodyDepth) + " levels");
    }
    open_.emplace_back().is_object = is_object;
    return count();
  }

  bool close() {
    BodyJson closed = to_json(std::move(open_.back()));
    open_.pop_back();
    attach(std::move(closed));
    return true;
  }

  BodyJson& root_;
  std::vector<Container> open_;  // outermost first
  std::string error_;
  int32_t num_values_ = 0;
};

// Where the first malformed stretch begins; text.size() if there is none.
size_t find_malformed_utf8(std::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    if (static_cast<uint8_t>(text[i]) < 0x80) {
      ++i;
      continue;
    }
    const Utf8Step step = utf8_step(text, i);
    if (step.kind != Utf8Step::Kind::kCharacter) return i;
    i += step.length;
  }
  return i;
}

ApiError not_json(std::string_view why) {
  std::string message = "the body is not a JSON object that can be read: ";
  message.append(why);
  return bad_request(std::move(message));
}

}  // namespace

std::optional<ApiError> parse_json_body(std::string_view body, BodyJson& out) {
  if (body.empty()) return bad_request("the body is empty; send a JSON object");
  const size_t malformed = find_malformed_utf8(body);
  if (malformed < body.size()) {
    return not_json("byte " + std::to_string(malformed) + " is not part of a UTF-8 character");
  }
  // nlohmann takes it for the end of the text.
  const size_t nul = body.find('\0');
  if (nul != std::string_view::npos) return not_json("byte " + std::to_string(nul) + " is NUL");
  BodyReader reader(out);
  try {
    if (!BodyJson::sax_parse(body, &reader)) return not_json(reader.error());
  } catch (const std::exception& e) {
    return not_json(e.what());
  }
  if (!out.is_object()) {
    return bad_request(std::string("the body is a JSON ") + out.type_name() +
                       "; it must be an object");
  }
  return std::nullopt;
}

}  // namespace encore
