// How much text an id can stand for, so that what cannot fit is known before it is encoded.
#pragma once

#include <cstdint>

namespace encore {

struct TokenizerParts;

// The most bytes of text that one id of an encoding stands for on average, whatever the text, as
// long as it is not one of control or unassigned characters; 0 if there is no such limit, because
// text may be dropped, or fused into one id.
int64_t max_bytes_per_id(const TokenizerParts& parts);

}  // namespace encore
