// The tensors of a model as its files list them, before they are given Encore's names.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "encore/dtype.h"
#include "model/mapped_file.h"

namespace encore {

// Where one tensor lies. The range [offset, offset + bytes) is inside its file, and `bytes` is what
// its type and shape need: the readers check both.
struct StoredTensor {
  DType dtype = DType::kInvalid;  // kInvalid if Encore cannot compute with the type
  std::string type_name;          // as the file format calls it
  std::vector<int64_t> shape;     // outermost dimension first
  size_t file = 0;                // index into TensorStore::files
  int64_t offset = 0;             // bytes from the start of the file
  int64_t bytes = 0;
};

// By the name the file gives them.
using TensorTable = std::map<std::string, StoredTensor, std::less<>>;

struct TensorStore {
  std::vector<std::unique_ptr<MappedFile>> files;
  TensorTable tensors;
};

}  // namespace encore
