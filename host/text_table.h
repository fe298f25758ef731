// Aligned columns for people.
#pragma once

#include <string>
#include <vector>

namespace encore {

// Rows of cells under a header; numbers are right-aligned. One thread.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header);

  // REQUIRES: as many cells as the header.
  void add_row(std::vector<std::string> cells);

  // One line a row, two spaces between columns, no trailing spaces.
  std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;  // the header first
};

// "95.3 MB", "512 B": decimal units, three digits.
std::string format_bytes(double bytes);

// "12.3 ms", "1.20 s", "85 us".
std::string format_us(double us);

// With so many digits after the point.
std::string format_number(double value, int digits);

}  // namespace encore
