/* The C interface of libencore_chat_template.so, which embeds Python and Jinja2. The library is
 * loaded on first use and stays: see text/chat_template.h for the face that callers use. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ENCORE_CHAT_TEMPLATE_ABI 1
#define ENCORE_CHAT_TEMPLATE_ENTRY "encore_chat_template_entry"

typedef struct encore_text {
  const char* data;
  size_t size; /* bytes */
} encore_text;

/* A token that the template wrote, as bytes of the rendered text. */
typedef struct encore_text_range {
  uint64_t begin, end;
} encore_text_range;

/* Receives results; each pointer is valid during the call only. */
typedef struct encore_chat_template_sink {
  void* context;
  void (*rendered)(void* context, encore_text text, const encore_text_range* ranges, size_t count);
  void (*failed)(void* context, encore_text message);
} encore_chat_template_sink;

typedef struct encore_chat_template encore_chat_template;

/* Functions may be called from any thread; none throws. */
typedef struct encore_chat_template_api {
  uint32_t abi; /* ENCORE_CHAT_TEMPLATE_ABI */
  /* Null on failure, which `sink` is told. special_json: object of names to texts; control_json:
   * array of texts. */
  encore_chat_template* (*create)(encore_text source, encore_text special_json,
                                  encore_text control_json, const encore_chat_template_sink* sink);
  /* Calls `rendered` or `failed`, once. tools_json and variables_json may be empty. */
  void (*render)(encore_chat_template* self, encore_text messages_json, encore_text tools_json,
                 int32_t add_generation_prompt, encore_text variables_json,
                 const encore_chat_template_sink* sink);
  void (*free)(encore_chat_template* self);
} encore_chat_template_api;

typedef const encore_chat_template_api* (*encore_chat_template_entry_function)(void);

#ifdef __cplusplus
}
#endif
