// The layout of the C ABI: asserted while compiling, printed when run.
//
// abi_layout.inc holds the numbers. The printed dump is checked in as abi_layout.txt, and a test
// compares the two, so that a change of layout shows in a review. The dump also says whether the
// fields follow each other without gaps: a field missing from the list would leave one.
#include "encore/sdk/abi_layout.h"

#include <cstddef>
#include <cstdio>

#include "encore/backend_abi.h"

// Types and fields cannot be in parentheses, and pointers to structs are fields too.
// NOLINTBEGIN(bugprone-macro-parentheses,bugprone-sizeof-expression)

static_assert(sizeof(void*) == 8 && sizeof(void (*)()) == 8, "the ABI is defined for 64 bits");

#define ENCORE_ABI_STRUCT(type, bytes) static_assert(sizeof(type) == (bytes), #type);
#define ENCORE_ABI_FIELD(type, field, offset, bytes)                                              \
  static_assert(                                                                                  \
      offsetof(type, field) == (offset) && sizeof(static_cast<type*>(nullptr)->field) == (bytes), \
      #type "." #field);
#include "abi_layout.inc"
#undef ENCORE_ABI_STRUCT
#undef ENCORE_ABI_FIELD

static_assert(encore::sdk::kSameLayout<encore::RowSampling, encore_row_sampling>);
static_assert(encore::sdk::kSameLayout<encore::TokenBias, encore_token_bias>);
static_assert(encore::sdk::kSameLayout<encore::TokenCount, encore_token_count>);
static_assert(encore::sdk::kSameLayout<encore::PageCopy, encore_page_copy>);

namespace {

// Prints structs and fields as they come, and remembers gaps.
class Dump {
 public:
  void begin(const char* type, size_t bytes) {
    end();
    std::printf("%s %zu\n", type, bytes);
    struct_bytes_ = bytes;
    next_ = 0;
  }

  void field(const char* name, size_t offset, size_t bytes) {
    std::printf("  %zu %zu %s\n", offset, bytes, name);
    if (offset != next_) {
      std::printf("  gap before %s\n", name);
      gaps_ = true;
    }
    next_ = offset + bytes;
  }

  // Returns whether there was a gap anywhere.
  bool end() {
    if (next_ != struct_bytes_) {
      std::printf("  gap at the end\n");
      gaps_ = true;
    }
    return gaps_;
  }

 private:
  size_t struct_bytes_ = 0;
  size_t next_ = 0;
  bool gaps_ = false;
};

}  // namespace

int main() {
  std::printf("encore backend ABI %u.%u: struct size / offset size field\n", ENCORE_ABI_MAJOR,
              ENCORE_ABI_MINOR);
  Dump dump;
#define ENCORE_ABI_STRUCT(type, bytes) dump.begin(#type, sizeof(type));
#define ENCORE_ABI_FIELD(type, field_name, offset, bytes) \
  dump.field(#field_name, offsetof(type, field_name),     \
             sizeof(static_cast<type*>(nullptr)->field_name));
#include "abi_layout.inc"
  return dump.end() ? 1 : 0;
}

// NOLINTEND(bugprone-macro-parentheses,bugprone-sizeof-expression)
