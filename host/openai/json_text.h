// JSON written by hand, for replies: appended to a string that is reused, without a tree.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace encore {

// `text` as the inside of a JSON string, without the quotes. Malformed UTF-8 becomes U+FFFD, so the
// result is always valid. Characters that some clients take for line ends in a stream of events
// (U+0085, U+2028, U+2029) are escaped as well.
void append_json_text(std::string_view text, std::string& out);

// With the quotes.
void append_json_string(std::string_view text, std::string& out);

void append_json_integer(int64_t value, std::string& out);

// The shortest text that reads back as `value`, always with a point or an exponent. JSON has no
// infinities: whatever is not finite becomes -9999.0, OpenAI's "very unlikely".
void append_json_logprob(float value, std::string& out);

}  // namespace encore
