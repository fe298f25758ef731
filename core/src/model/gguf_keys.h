// Typed access to the keys of a GGUF file.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "encore/status.h"
#include "model/gguf_value.h"

namespace encore {

// Takes values out of `metadata`, whose names start with `prefix` ("llama."). A key that is absent
// leaves the target as it is; one of another type is kInvalidArgument, naming file and key.
// Borrows the metadata.
class GgufKeys {
 public:
  GgufKeys(const GgufMetadata& metadata, std::string prefix, std::string where)
      : metadata_(metadata), prefix_(std::move(prefix)), where_(std::move(where)) {}

  const std::string& where() const { return where_; }
  std::string name(const char* key) const { return prefix_ + key; }
  bool has(const char* key) const { return metadata_.find(name(key)) != metadata_.end(); }

  Status read(const char* key, int64_t* value) const;
  Status read(const char* key, double* value) const;
  Status read(const char* key, std::string* value) const;

  // As read(), but absent is kInvalidArgument too.
  Status require(const char* key, int64_t* value) const;

 private:
  Status wrong_type(const char* key, const char* expected) const;

  const GgufMetadata& metadata_;
  std::string prefix_;
  std::string where_;
};

}  // namespace encore
