// The key-value section of a GGUF file.
#pragma once

#include <cstdint>
#include <string>

#include "encore/status.h"
#include "model/file_cursor.h"
#include "model/gguf_value.h"

namespace encore {

// Reads `key_count` keys from `cursor` on. `path` is for messages.
// Errors: kDataLoss for a key that is twice there, an unknown value type, a length or count that
// leaves the file or passes a limit (64 MiB a string, 2^24 elements an array, 4 nested arrays).
Status read_gguf_metadata(FileCursor& cursor, const std::string& path, uint64_t key_count,
                          GgufMetadata* metadata);

}  // namespace encore
