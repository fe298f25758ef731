// A fuzzer's input as a file with a path, in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace encore {

// One per process; opens by path as any file does, and may be overwritten for the next input.
class FuzzFile {
 public:
  FuzzFile();
  FuzzFile(const FuzzFile&) = delete;
  FuzzFile& operator=(const FuzzFile&) = delete;
  ~FuzzFile();

  // Replaces the content and returns the path.
  const std::string& write(const uint8_t* data, size_t size);

 private:
  int descriptor_;
  std::string path_;
};

}  // namespace encore
