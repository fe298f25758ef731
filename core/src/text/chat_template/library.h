// The interface of libencore_chat_template.so, which embeds Python and Jinja2: plain structs and
// one exported C function. text/chat_template.h is the face that callers use.
#pragma once

#include <cstddef>
#include <cstdint>

namespace encore {

struct LibraryText {
  const char* data;
  size_t size;  // bytes
};

// A token that the template wrote, as bytes of the rendered text.
struct LibraryRange {
  uint64_t begin, end;
};

// Receives results; each pointer is valid during the call only.
struct LibrarySink {
  void* context;
  void (*rendered)(void* context, LibraryText text, const LibraryRange* ranges, size_t count);
  void (*failed)(void* context, LibraryText message);
};

struct LibraryTemplate;  // opaque

// Functions may be called from any thread; none throws.
struct LibraryApi {
  uint32_t version;  // kLibraryVersion

  // Null on failure, which `sink` is told. special_json: object of names to texts; control_json:
  // array of texts; seconds: that this, and each render, may take. The caller frees the result.
  LibraryTemplate* (*create)(LibraryText source, LibraryText special_json, LibraryText control_json,
                             double seconds, const LibrarySink* sink);

  // Calls `rendered` or `failed`, once. tools_json and variables_json may be empty.
  void (*render)(LibraryTemplate* self, LibraryText messages_json, LibraryText tools_json,
                 int32_t add_generation_prompt, LibraryText variables_json,
                 const LibrarySink* sink);

  void (*free)(LibraryTemplate* self);
};

inline constexpr uint32_t kLibraryVersion = 2;
inline constexpr const char* kLibraryEntry = "encore_chat_template_entry";
using LibraryEntryFunction = const LibraryApi* (*)();

}  // namespace encore
