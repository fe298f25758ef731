#include "text_table.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdio>
#include <utility>

namespace encore {
namespace {

bool is_number(const std::string& cell) {
  return !cell.empty() && (cell[0] == '-' ? cell.size() > 1 : true) &&
         std::string_view("0123456789-").find(cell[0]) != std::string_view::npos;
}

}  // namespace

TextTable::TextTable(std::vector<std::string> header) { rows_.push_back(std::move(header)); }

void TextTable::add_row(std::vector<std::string> cells) {
  assert(cells.size() == rows_[0].size());
  rows_.push_back(std::move(cells));
}

std::string TextTable::text() const {
  const size_t num_columns = rows_[0].size();
  std::vector<size_t> widths(num_columns, 0);
  std::vector<bool> right(num_columns, rows_.size() > 1);
  for (size_t row = 0; row < rows_.size(); ++row) {
    for (size_t column = 0; column < num_columns; ++column) {
      const std::string& cell = rows_[row][column];
      widths[column] = std::max(widths[column], cell.size());
      if (row > 0 && !is_number(cell)) right[column] = false;
    }
  }
  std::string out;
  for (const std::vector<std::string>& row : rows_) {
    std::string line;
    for (size_t column = 0; column < num_columns; ++column) {
      const std::string padding(widths[column] - row[column].size(), ' ');
      if (column > 0) line += "  ";
      if (right[column]) line += padding;
      line += row[column];
      if (!right[column]) line += padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line;
    out += '\n';
  }
  return out;
}

std::string format_number(double value, int digits) {
  std::array<char, 64> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.*f", digits, value);
  return buffer.data();
}

std::string format_bytes(double bytes) {
  static constexpr std::array<const char*, 5> kUnits = {" B", " kB", " MB", " GB", " TB"};
  size_t unit = 0;
  while (bytes >= 999.5 && unit + 1 < kUnits.size()) {
    bytes /= 1000.0;
    ++unit;
  }
  const int digits = unit == 0 || bytes >= 99.95 ? 0 : bytes >= 9.995 ? 1 : 2;
  return format_number(bytes, digits) + kUnits[unit];
}

std::string format_us(double us) {
  if (us < 1000.0) return format_number(us, 0) + " us";
  if (us < 1e6) return format_number(us / 1e3, us < 1e5 ? 1 : 0) + " ms";
  return format_number(us / 1e6, 2) + " s";
}

}  // namespace encore
