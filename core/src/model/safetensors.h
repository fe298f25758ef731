// Reads safetensors files and directories of them.
#pragma once

#include <string>
#include <vector>

#include "encore/status.h"
#include "model/mapped_file.h"
#include "model/tensor_store.h"

namespace encore {

// The tensors of one file; `file` is 0. Checked before anything is sized by it: the header's
// length, every type, shape and range, and that the ranges cover the data without overlap or hole.
// Types other than F32, F16 and BF16 are listed with DType::kInvalid: a model may not need them.
// Errors: kDataLoss, naming file, tensor, expected and found.
Result<TensorTable> read_safetensors_header(const MappedFile& file);

// The weights of a Hugging Face directory: the files that model.safetensors.index.json lists, or
// model.safetensors. Other .safetensors files are ignored with a line in `notes`.
// Errors: as above; kNotFound if there are no weights, a shard is missing, or a shard lacks a
// tensor that the index expects in it.
Result<TensorStore> open_safetensors_directory(const std::string& directory,
                                               std::vector<std::string>& notes);

}  // namespace encore
