// Reads GGUF files, versions 2 and 3, little endian.
#pragma once

#include <string>

#include "encore/status.h"
#include "model/gguf_value.h"
#include "model/mapped_file.h"
#include "model/tensor_store.h"

namespace encore {

// One file's header. Tensor shapes are outermost first, the reverse of the file's order.
struct GgufHeader {
  GgufMetadata metadata;  // arrays of arrays are checked and left out
  TensorTable tensors;    // `file` is 0
};

// Every count, length, dimension, offset and type is checked against the file's size before memory
// is taken for it.
// Errors: kDataLoss for a malformed or truncated file; kUnimplemented for a version, byte order or
// tensor type that Encore does not read. Messages name file, key or tensor, expected and found.
Result<GgufHeader> read_gguf_header(const MappedFile& file);

// A model's one file, or all parts of it.
struct GgufFiles {
  GgufMetadata metadata;  // of the first part
  TensorStore store;
};

// Opens `path` and, if it is part of a set ("name-00002-of-00003.gguf"), all the others.
// Errors: as above; kNotFound if a part is missing; kDataLoss if parts contradict one another.
Result<GgufFiles> open_gguf(const std::string& path);

}  // namespace encore
