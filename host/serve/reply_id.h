// Names for replies.
#pragma once

#include <string>

namespace encore {

// "chatcmpl-" or "cmpl-" and 24 hexadecimal digits that no other reply has. Any thread.
std::string make_reply_id(bool is_chat);

}  // namespace encore
