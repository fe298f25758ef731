// The nearest known word to a mistyped one, for error messages.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace encore {

// The number of single-character insertions, deletions, replacements and swaps of neighbours that
// turn `a` into `b`. Texts are cut to their first 128 bytes.
size_t edit_distance(std::string_view a, std::string_view b);

// The candidate nearest to `word`, or "" if none is near enough to be what was meant: more than a
// third of the word would have to change. Ties go to the earlier candidate.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

}  // namespace encore
