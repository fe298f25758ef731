/* The boundary between the Encore host and a backend plugin, in plain C (C99 and C++).
 *
 * A plugin is a shared library with one exported function, encore_backend_entry(), which returns a
 * table of functions. C++ authors need not read further than encore/sdk/backend_plugin.h; authors
 * in other languages implement the table below. docs/backend-abi.md numbers the rules; in short:
 *
 *   sizes       Every struct starts with `struct_size`, set by whoever allocates it to the size it
 *               knows. An element of an array has its size in the array's `..._stride` instead.
 *               A struct inside a struct is held by pointer. Fields are only appended, and a reader
 *               reads min(its own size, the stated size): what is missing reads as zero.
 *   outputs     The caller allocates, zeroes and sets struct_size; the callee writes at most that
 *               many bytes and leaves struct_size alone.
 *   errors      Functions return an encore_status, 0 for success, and describe a failure in
 *               `error`, which is never null. No exception and no longjmp crosses, in either
 *               direction.
 *   text        UTF-8, pointer and length, not zero-terminated; the pointer may be null if the
 *               length is 0. Text in a fixed array has its length beside it.
 *   flags       int32_t, 0 or 1. Enumerations are int32_t with the numbers listed; a number the
 *               reader does not know is an error or "unsupported", never undefined behaviour.
 *   reserved    Fields of that name are written as zero and not read.
 *   memory      Who allocates frees. Handles are freed by the function named so: runners before
 *               their KV cache, KV caches before their model, models before shutdown().
 *   null        No argument may be null unless its comment says so.
 *   borrowing   Arguments are borrowed until the call returns unless the comment says more.
 *   threads     Functions on the backend may be called from any thread once init() has returned;
 *               a model, KV cache or runner is used by one thread at a time, and different ones
 *               concurrently.
 *
 * Version 0.x is not stable yet; from 1.0 on, only `minor` grows without breaking plugins.
 */
#ifndef ENCORE_BACKEND_ABI_H_
#define ENCORE_BACKEND_ABI_H_

#include <stdint.h>

/* C names and typedefs by intent. NOLINTBEGIN(modernize-use-using,readability-identifier-naming) */

#ifdef __cplusplus
extern "C" {
#endif

#define ENCORE_ABI_MAGIC UINT64_C(0x494241524F434E45) /* the bytes "ENCORABI" */
#define ENCORE_ABI_MAJOR 0U                           /* host and plugin must have the same */
#define ENCORE_ABI_MINOR 1U                           /* grows when something is appended */
#define ENCORE_BACKEND_ENTRY_NAME "encore_backend_entry"

/* ---- Errors ---------------------------------------------------------------------------------- */

typedef int32_t encore_status;
#define ENCORE_OK 0
#define ENCORE_INVALID_ARGUMENT 1
#define ENCORE_NOT_FOUND 2
#define ENCORE_FAILED_PRECONDITION 3
#define ENCORE_OUT_OF_MEMORY 4
#define ENCORE_UNAVAILABLE 5
#define ENCORE_UNIMPLEMENTED 6
#define ENCORE_DATA_LOSS 7
#define ENCORE_CANCELLED 8
#define ENCORE_DEADLINE_EXCEEDED 9
#define ENCORE_INTERNAL 10

/* What a failure has spoilt, and so what must be given up or made anew. */
#define ENCORE_SCOPE_REQUEST 0 /* this call only */
#define ENCORE_SCOPE_RUNNER 1  /* the runner; free it */
#define ENCORE_SCOPE_DEVICE 2  /* everything on the device */
#define ENCORE_SCOPE_PROCESS 3 /* only a new process helps */

#define ENCORE_ERROR_MESSAGE_CAPACITY 996U

/* Owned by the caller of the function that fails. Its layout up to `message` is frozen for ever. */
typedef struct encore_error {
  uint64_t struct_size;
  encore_status code;    /* the same as the function returns */
  int32_t native_code;   /* the driver's or system's own number; 0 if there is none */
  int32_t scope;         /* ENCORE_SCOPE_... */
  int32_t retryable;     /* 1: the same call may succeed later */
  uint32_t message_size; /* bytes of `message` in use */
  char message[ENCORE_ERROR_MESSAGE_CAPACITY]; /* for people: value, limit, remedy */
} encore_error;

/* ---- The host -------------------------------------------------------------------------------- */

#define ENCORE_LOG_ERROR 0
#define ENCORE_LOG_WARN 1
#define ENCORE_LOG_INFO 2
#define ENCORE_LOG_DEBUG 3

/* Writes one line to the host's log. Any thread. */
typedef void (*encore_log_fn)(void* context, int32_t level, const char* message,
                              uint64_t message_size);

/* Valid for the life of the process. The first three fields are frozen for ever. */
typedef struct encore_host_info {
  uint64_t struct_size;
  uint32_t abi_major;
  uint32_t abi_minor;
  const char* version; /* of the host program */
  uint64_t version_size;
  encore_log_fn log; /* may be null */
  void* log_context; /* may be null */
} encore_host_info;

/* ---- Handles: defined by the plugin, opaque to the host -------------------------------------- */

typedef struct encore_backend encore_backend;
typedef struct encore_model encore_model;
typedef struct encore_kv encore_kv;
typedef struct encore_runner encore_runner;

/* ---- Backend and devices --------------------------------------------------------------------- */

typedef struct encore_text { /* array element */
  const char* data;
  uint64_t size;
} encore_text;

#define ENCORE_PROBE_REASON_CAPACITY 1008U

typedef struct encore_probe_result {
  uint64_t struct_size;
  int32_t usable;                            /* 1: this machine has what the backend needs */
  uint32_t reason_size;                      /* bytes of `reason` in use */
  char reason[ENCORE_PROBE_REASON_CAPACITY]; /* why not, for people */
} encore_probe_result;

#define ENCORE_OPTION_INT 0
#define ENCORE_OPTION_FLOAT 1
#define ENCORE_OPTION_BOOL 2 /* "true" or "false" */
#define ENCORE_OPTION_STRING 3
#define ENCORE_OPTION_ENUM 4

typedef struct encore_option_schema { /* array element */
  const char* key;
  uint64_t key_size;
  const char* default_value;
  uint64_t default_value_size;
  const char* help; /* one sentence */
  uint64_t help_size;
  const encore_text* choices; /* of an enum; for an int: words also accepted, such as "auto" */
  uint64_t choices_count;
  uint64_t choices_stride;
  double minimum; /* int and float; no limits if minimum > maximum */
  double maximum;
  int32_t type; /* ENCORE_OPTION_... */
  uint32_t reserved;
} encore_option_schema;

/* The plugin fills in pointers to its own memory, valid for the life of the process. */
typedef struct encore_option_list {
  uint64_t struct_size;
  const encore_option_schema* options;
  uint64_t options_count;
  uint64_t options_stride;
} encore_option_list;

typedef struct encore_option_value { /* array element */
  const char* key;
  uint64_t key_size;
  const char* value;
  uint64_t value_size;
} encore_option_value;

#define ENCORE_CAPABILITY_EAGER (UINT64_C(1) << 0)
#define ENCORE_CAPABILITY_PREFILL_FULL (UINT64_C(1) << 1)
#define ENCORE_CAPABILITY_PREFILL_BREAKABLE (UINT64_C(1) << 2)
#define ENCORE_CAPABILITY_DECODE_GRAPH (UINT64_C(1) << 3)
#define ENCORE_CAPABILITY_COLLECTIVES (UINT64_C(1) << 4)

#define ENCORE_DEVICE_ID_CAPACITY 128U
#define ENCORE_DEVICE_NAME_CAPACITY 256U
#define ENCORE_DEVICE_ARCHITECTURE_CAPACITY 256U

typedef struct encore_device_info {
  uint64_t struct_size;
  uint64_t capabilities; /* ENCORE_CAPABILITY_... */
  uint32_t id_size;
  uint32_t name_size;
  uint32_t architecture_size;
  uint32_t reserved;
  char id[ENCORE_DEVICE_ID_CAPACITY];     /* stable across runs, for example "cpu:0" */
  char name[ENCORE_DEVICE_NAME_CAPACITY]; /* for people */
  char architecture[ENCORE_DEVICE_ARCHITECTURE_CAPACITY]; /* for example "sm_90a" */
} encore_device_info;

typedef struct encore_device_memory {
  uint64_t struct_size;
  int64_t total_bytes;
  int64_t free_bytes;
} encore_device_memory;

/* Receives one counter; `name` is borrowed for the call. Does not fail. */
typedef void (*encore_stat_fn)(void* context, const char* name, uint64_t name_size, int64_t value);

/* ---- Models and weights ---------------------------------------------------------------------- */

#define ENCORE_DTYPE_F32 1
#define ENCORE_DTYPE_F16 2
#define ENCORE_DTYPE_BF16 3
#define ENCORE_DTYPE_I32 4
#define ENCORE_DTYPE_I64 5
#define ENCORE_DTYPE_U8 6
#define ENCORE_DTYPE_Q8_0 32 /* quantised types as GGUF lays them out */
#define ENCORE_DTYPE_Q4_0 33
#define ENCORE_DTYPE_Q4_1 34
#define ENCORE_DTYPE_Q4_K 35
#define ENCORE_DTYPE_Q5_K 36
#define ENCORE_DTYPE_Q6_K 37

#define ENCORE_ROPE_HALF_SPLIT 0     /* element i turns with i + head_dim / 2 */
#define ENCORE_ROPE_ADJACENT_PAIRS 1 /* element 2i with 2i + 1 */

typedef struct encore_model_spec {
  uint64_t struct_size;
  const char* architecture; /* "llama", "mistral", "qwen2", "qwen3" */
  uint64_t architecture_size;
  const char* name; /* for people; may be empty */
  uint64_t name_size;
  int64_t vocab_size;
  int64_t hidden_size;
  int64_t intermediate_size;
  int64_t num_layers;
  int64_t num_heads;
  int64_t num_kv_heads;
  int64_t head_dim;
  int64_t max_context;   /* tokens, prompt and reply together */
  const float* inv_freq; /* [rotary_dim / 2] radians a position, scaling applied */
  uint64_t inv_freq_count;
  float attention_scale; /* multiplies cos and sin of the rotation */
  float rms_norm_eps;
  int32_t rope_style;            /* ENCORE_ROPE_... */
  int32_t tied_embeddings;       /* flag: the head is the embedding matrix */
  int32_t qkv_bias;              /* flag */
  int32_t attention_output_bias; /* flag */
  int32_t mlp_bias;              /* flag */
  int32_t qk_norm;               /* flag: RMS norm of each q and k head before rotation */
} encore_model_spec;

typedef struct encore_weight_info { /* array element */
  const char* name;                 /* Encore's own names; see encore/weights.h */
  uint64_t name_size;
  const int64_t* shape; /* [out_features, in_features] or [size]; the last is contiguous */
  uint64_t shape_count;
  int64_t bytes;
  int32_t dtype; /* ENCORE_DTYPE_... */
  uint32_t reserved;
} encore_weight_info;

/* Copies `size` bytes of weight `index` from byte `offset` on. Any thread, concurrently.
 * Errors: ENCORE_INVALID_ARGUMENT if the range leaves the tensor; ENCORE_DATA_LOSS if the file
 * has shrunk. */
typedef encore_status (*encore_weight_read_fn)(void* context, uint64_t index, int64_t offset,
                                               void* destination, uint64_t size,
                                               encore_error* error);
/* The tensor in place, read-only, valid until model_free() returns; null if it cannot be mapped,
 * and then read it. Any thread. */
typedef const void* (*encore_weight_map_fn)(void* context, uint64_t index);
/* Says that the pages under map(index) will not be read soon. Any thread. */
typedef void (*encore_weight_release_fn)(void* context, uint64_t index);

/* The host's weights. The struct and all it points to are valid until model_free() returns, or
 * until model_load() has failed. */
typedef struct encore_weight_source {
  uint64_t struct_size;
  const encore_weight_info* weights;
  uint64_t weights_count;
  uint64_t weights_stride;
  void* context; /* may be null */
  encore_weight_read_fn read;
  encore_weight_map_fn map;
  encore_weight_release_fn release;
} encore_weight_source;

/* Reports bytes loaded so far; nonzero asks to stop: model_load() then fails with
 * ENCORE_CANCELLED. Called from the thread that called model_load(). */
typedef int32_t (*encore_load_progress_fn)(void* context, int64_t done_bytes, int64_t total_bytes);

typedef struct encore_load_options {
  uint64_t struct_size;
  int32_t tensor_parallel_rank;
  int32_t tensor_parallel_size;
  encore_load_progress_fn progress; /* may be null */
  void* progress_context;           /* may be null */
} encore_load_options;

typedef struct encore_model_info {
  uint64_t struct_size;
  int64_t weight_bytes; /* device memory the weights take, copies included */
  int64_t mapped_bytes; /* of these, read in place from mapped files */
  int64_t workspace_bytes;
  int64_t step_weight_bytes; /* weights read by a step of one token */
} encore_model_info;

/* ---- KV caches ------------------------------------------------------------------------------- */

typedef struct encore_kv_options {
  uint64_t struct_size;
  int32_t num_pages;
  int32_t page_size; /* tokens */
  int32_t dtype;     /* ENCORE_DTYPE_... */
  int32_t guards;    /* flag: canary bytes at both ends */
} encore_kv_options;

typedef struct encore_kv_info {
  uint64_t struct_size;
  int32_t num_pages;
  int32_t page_size;
  int64_t page_bytes;  /* one page over all layers */
  int64_t total_bytes; /* reserved pages included */
} encore_kv_info;

typedef struct encore_page_copy { /* array element */
  int32_t source;
  int32_t destination;
} encore_page_copy;

/* ---- Capture --------------------------------------------------------------------------------- */

#define ENCORE_PREFILL_OFF 0
#define ENCORE_PREFILL_FULL 1
#define ENCORE_PREFILL_BREAKABLE 2

/* Why a runner cannot run a batch, or why a bucket was not captured; see encore/reason.h. */
#define ENCORE_REASON_NONE 0
#define ENCORE_REASON_DISABLED 1
#define ENCORE_REASON_NOT_CAPTURED 2
#define ENCORE_REASON_TOO_MANY_TOKENS 3
#define ENCORE_REASON_TOO_MANY_REQUESTS 4
#define ENCORE_REASON_NOT_DECODE 5
#define ENCORE_REASON_NO_EXACT_BUCKET 6
#define ENCORE_REASON_CONTEXT_TOO_LONG 7
#define ENCORE_REASON_TOO_MANY_LOGIT_ROWS 8
#define ENCORE_REASON_TOO_MANY_LOGPROBS 9
#define ENCORE_REASON_HISTORY_TOO_LONG 10
#define ENCORE_REASON_TOO_MANY_BIASES 11
#define ENCORE_REASON_LOGITS_REQUESTED 12
#define ENCORE_REASON_OBSERVED 13
#define ENCORE_REASON_SLOWER 14
#define ENCORE_REASON_OUT_OF_MEMORY 15
#define ENCORE_REASON_CAPTURE_FAILED 16
#define ENCORE_REASON_NO_LAYER_STACK 17
#define ENCORE_REASON_UNSUPPORTED 18

typedef struct encore_runner_limits {
  uint64_t struct_size;
  int32_t max_requests;
  int32_t max_tokens;   /* new tokens a step */
  int32_t max_context;  /* tokens of one request */
  int32_t max_logprobs; /* most probable tokens a row may ask for */
  int32_t max_history;  /* penalty entries a step */
  int32_t max_biases;   /* logit biases a step */
} encore_runner_limits;

/* Says that `done` of `total` buckets are done. Called from the capturing thread. */
typedef void (*encore_capture_progress_fn)(void* context, int32_t done, int32_t total);

typedef struct encore_capture_options {
  uint64_t struct_size;
  const encore_runner_limits* limits;
  const int32_t* prefill_buckets; /* empty: the plugin's default */
  uint64_t prefill_buckets_count;
  const int32_t* decode_buckets; /* empty: the plugin's default */
  uint64_t decode_buckets_count;
  int32_t prefill_mode;                /* ENCORE_PREFILL_... */
  int32_t padding;                     /* flag; 0: a graph serves its exact size only */
  int32_t poison;                      /* flag: overwrite arena and padding between replays */
  int32_t guards;                      /* flag: canary bytes round arena and static buffers */
  encore_capture_progress_fn progress; /* may be null */
  void* progress_context;              /* may be null */
} encore_capture_options;

typedef struct encore_bucket_report { /* array element */
  int32_t bucket;
  int32_t reason;      /* ENCORE_REASON_...; none: captured */
  const char* message; /* for people, if skipped */
  uint64_t message_size;
  int64_t arena_bytes;
  int64_t executable_bytes;
  int64_t workspace_bytes;
  int64_t capture_us;
  int32_t num_nodes;    /* kernel calls a replay makes */
  int32_t num_segments; /* launches a replay makes */
} encore_bucket_report;

/* The plugin's memory, valid until runner_free() of the runner that it describes. */
typedef struct encore_capture_report {
  uint64_t struct_size;
  const encore_bucket_report* buckets; /* largest first; empty for eager */
  uint64_t buckets_count;
  uint64_t buckets_stride;
  int64_t arena_bytes;
  int64_t static_bytes;
  int64_t workspace_bytes;
  int64_t executable_bytes;
  int64_t total_us;
} encore_capture_report;

/* ---- Steps ----------------------------------------------------------------------------------- */

typedef struct encore_row_sampling { /* array element */
  float temperature;                 /* below 1e-4: greedy */
  float top_p;
  float min_p;
  float repetition_penalty;
  float presence_penalty;
  float frequency_penalty;
  int32_t top_k;
  int32_t num_logprobs; /* -1: none; 0: the sampled token's; N: the N most probable too */
  uint64_t seed;        /* the random stream is a function of (seed, position) alone */
  int64_t position;
} encore_row_sampling;

typedef struct encore_token_bias { /* array element */
  int32_t token;
  float bias;
} encore_token_bias;

typedef struct encore_token_count { /* array element */
  int32_t token;
  int32_t in_prompt;
  int32_t in_output;
} encore_token_count;

/* A ragged batch: r requests bring n new tokens, m of which want logits. encore/forward_batch.h
 * gives each field's meaning. Borrowed, with all it points to, until runner_submit() returns. */
typedef struct encore_forward_batch {
  uint64_t struct_size;
  const int32_t* token_ids; /* [n]; -1-k: the token that row k of the previous step sampled */
  uint64_t token_ids_count;
  const int32_t* positions; /* [n] */
  uint64_t positions_count;
  const int32_t* q_start; /* [r+1] */
  uint64_t q_start_count;
  const int32_t* kv_len; /* [r] */
  uint64_t kv_len_count;
  const int32_t* page_start; /* [r+1] */
  uint64_t page_start_count;
  const int32_t* page_ids; /* [page_start[r]] */
  uint64_t page_ids_count;
  const int32_t* logit_rows; /* [m] */
  uint64_t logit_rows_count;
  const encore_row_sampling* sampling; /* [m] */
  uint64_t sampling_count;
  uint64_t sampling_stride;
  const int32_t* bias_start; /* [m+1], or empty */
  uint64_t bias_start_count;
  const encore_token_bias* biases; /* [bias_start[m]] */
  uint64_t biases_count;
  uint64_t biases_stride;
  const int32_t* history_start; /* [m+1], or empty */
  uint64_t history_start_count;
  const encore_token_count* history; /* [history_start[m]] */
  uint64_t history_count;
  uint64_t history_stride;
  int32_t num_valid_tokens; /* ids from here on are never sampled */
  uint32_t reserved;
} encore_forward_batch;

#define ENCORE_ROW_OK 0
#define ENCORE_ROW_NON_FINITE 1

/* Where results go. The struct is borrowed until runner_submit() returns; the arrays, which belong
 * to the host, until runner_wait() returns for the step. A count of 0 means: not wanted. */
typedef struct encore_step_output {
  uint64_t struct_size;
  int32_t* tokens; /* [m]; -1 where the row's status is not ok */
  uint64_t tokens_count;
  int32_t* row_status; /* [m], ENCORE_ROW_... */
  uint64_t row_status_count;
  float* logprobs; /* [m] or empty */
  uint64_t logprobs_count;
  int32_t* top_tokens; /* [m, top_logprobs_width] or empty */
  uint64_t top_tokens_count;
  float* top_logprobs; /* [m, top_logprobs_width] or empty */
  uint64_t top_logprobs_count;
  float* logits; /* [m, vocab_size] or empty */
  uint64_t logits_count;
  int32_t top_logprobs_width;
  uint32_t reserved;
} encore_step_output;

typedef struct encore_runner_verdict {
  uint64_t struct_size;
  int32_t reason; /* ENCORE_REASON_...; none: the runner can run the batch */
  int32_t bucket; /* padded tokens or requests; 0 for eager or if it cannot run */
} encore_runner_verdict;

/* ---- Extensions: optional tables, found by name through get_extension() ---------------------- */

typedef struct encore_layer_output {
  uint64_t struct_size;
  const float* hidden; /* [num_tokens, hidden_size], host-readable; borrowed for the call */
  uint64_t hidden_count;
  int32_t layer;
  int32_t num_tokens;
  int32_t hidden_size;
  uint32_t reserved;
} encore_layer_output;

/* Sees one layer's output. Called from a thread of the plugin, never twice at once. */
typedef void (*encore_layer_observer_fn)(void* context, const encore_layer_output* output);

#define ENCORE_EXTENSION_LAYER_OBSERVERS "encore.layer_observers"
typedef struct encore_layer_observers_extension {
  uint64_t struct_size;
  /* Calls `observer` with every layer's output; a null one removes it. `observer` and `context` (may
   * be null) are valid until replaced or until model_free(): a runner captured with one looks up
   * the current one at each step. Not while a step is in flight. */
  encore_status (*set_observer)(encore_model* model, encore_layer_observer_fn observer,
                                void* context, encore_error* error);
} encore_layer_observers_extension;

typedef struct encore_device_limits {
  uint64_t struct_size;
  double read_bytes_per_s; /* zero where unknown */
  double matmul_ops_per_s; /* a multiply-add is two */
} encore_device_limits;

#define ENCORE_EXTENSION_DEVICE_LIMITS "encore.device_limits"
typedef struct encore_device_limits_extension {
  uint64_t struct_size;
  /* Measures what the device can do at best; takes up to a second. After init(). */
  encore_status (*measure)(encore_backend* backend, int32_t device, encore_device_limits* limits,
                           encore_error* error);
} encore_device_limits_extension;

#define ENCORE_EXTENSION_GUARDS "encore.guards"
typedef struct encore_guards_extension {
  uint64_t struct_size;
  /* Errors: ENCORE_INTERNAL naming the buffer whose guard bytes are damaged and the last step. */
  encore_status (*check)(encore_model* model, encore_error* error);
} encore_guards_extension;

/* ---- The table ------------------------------------------------------------------------------- */

/* Valid, and unchanged, for the life of the process. Every function is required unless its comment
 * says "optional", and then may be null. */
typedef struct encore_backend_table {
  /* Frozen for ever: these four fields, their order and types. */
  uint64_t magic; /* ENCORE_ABI_MAGIC */
  uint64_t struct_size;
  uint32_t abi_major;
  uint32_t abi_minor;

  /* Identity. */
  const char* name; /* "cpu", or "vendor.name" for third parties: [a-z0-9._-], 1 to 64 bytes */
  uint64_t name_size;
  const char* vendor;
  uint64_t vendor_size;
  const char* version;
  uint64_t version_size;
  const char* build_id; /* tells two builds of one version apart */
  uint64_t build_id_size;

  /* First argument of the functions below; may be null. */
  encore_backend* backend;

  /* Whether the backend can be used on this machine. Cheap; creates no device context; may be
   * called before init(), from any thread. */
  encore_status (*probe)(encore_backend* backend, encore_probe_result* result, encore_error* error);

  /* The options that init() takes. May be called before init(), from any thread. */
  encore_status (*option_schema)(encore_backend* backend, encore_option_list* list,
                                 encore_error* error);

  /* Makes the backend ready. Once, or again after shutdown(); before all functions below. Receives
   * every key of the schema once, with a value that the host has checked; `values` may be null if
   * values_count is 0. */
  encore_status (*init)(encore_backend* backend, const encore_option_value* values,
                        uint64_t values_count, uint64_t values_stride, encore_error* error);

  /* Undoes init(): ends threads, gives up devices. All models have been freed. Cannot fail. The
   * library stays mapped. */
  void (*shutdown)(encore_backend* backend);

  /* Devices are numbered from 0. Any thread. */
  encore_status (*device_count)(encore_backend* backend, int32_t* count, encore_error* error);
  encore_status (*device_info)(encore_backend* backend, int32_t device, encore_device_info* info,
                               encore_error* error);
  encore_status (*device_memory)(encore_backend* backend, int32_t device,
                                 encore_device_memory* memory, encore_error* error);

  /* Whether the device can run the model, without loading it. `weights` may be null if
   * weights_count is 0. Any thread.
   * Errors: ENCORE_UNIMPLEMENTED and why not. */
  encore_status (*model_check)(encore_backend* backend, int32_t device,
                               const encore_model_spec* spec, const encore_weight_info* weights,
                               uint64_t weights_count, uint64_t weights_stride,
                               encore_error* error);

  /* Loads a model. `weights` is borrowed until model_free() returns; `spec` and `options` until
   * the call returns. *model is written on success only; the caller frees it with model_free(). */
  encore_status (*model_load)(encore_backend* backend, int32_t device,
                              const encore_model_spec* spec, const encore_weight_source* weights,
                              const encore_load_options* options, encore_model** model,
                              encore_error* error);
  encore_status (*model_info)(encore_model* model, encore_model_info* info, encore_error* error);
  /* All KV caches of the model have been freed. Cannot fail. */
  void (*model_free)(encore_model* model);

  /* Page ids run from 0 to num_pages - 1. *kv is written on success only; kv_free() frees it. */
  encore_status (*kv_create)(encore_model* model, const encore_kv_options* options, encore_kv** kv,
                             encore_error* error);
  encore_status (*kv_info)(encore_kv* kv, encore_kv_info* info, encore_error* error);
  /* Copies whole pages, in order; `copies` may be null if copies_count is 0. */
  encore_status (*kv_copy)(encore_kv* kv, const encore_page_copy* copies, uint64_t copies_count,
                           uint64_t copies_stride, encore_error* error);
  /* The bytes of one page in the plugin's own layout. destination_size is the page_bytes of
   * kv_info(). */
  encore_status (*kv_read)(encore_kv* kv, int32_t page, void* destination,
                           uint64_t destination_size, encore_error* error);
  /* All runners on the cache have been freed. Cannot fail. */
  void (*kv_free)(encore_kv* kv);

  /* The three modes, in any order. A bucket that cannot be captured is reported and skipped; an
   * error means that there is no runner. *runner and *report are written on success only;
   * runner_free() frees both. The runner uses `kv`, which belongs to `model`, until then. */
  encore_status (*eager_create)(encore_model* model, encore_kv* kv,
                                const encore_capture_options* options, encore_runner** runner,
                                const encore_capture_report** report, encore_error* error);
  encore_status (*prefill_capture)(encore_model* model, encore_kv* kv,
                                   const encore_capture_options* options, encore_runner** runner,
                                   const encore_capture_report** report, encore_error* error);
  encore_status (*decode_capture)(encore_model* model, encore_kv* kv,
                                  const encore_capture_options* options, encore_runner** runner,
                                  const encore_capture_report** report, encore_error* error);

  /* Whether the runner can run the batch, and at which padded size. No side effects, no
   * allocation. */
  encore_status (*runner_check)(encore_runner* runner, const encore_forward_batch* batch,
                                const encore_step_output* output, encore_runner_verdict* verdict,
                                encore_error* error);
  /* Starts a step that runner_check() found possible. *ticket is written on success only.
   * Errors: ENCORE_INVALID_ARGUMENT, naming the field, if the batch contradicts itself. */
  encore_status (*runner_submit)(encore_runner* runner, const encore_forward_batch* batch,
                                 const encore_step_output* output, uint64_t* ticket,
                                 encore_error* error);
  /* Waits until the step's results are in its output arrays. Each ticket once, in order.
   * Errors: ENCORE_DEADLINE_EXCEEDED after timeout_us (< 0: no limit): the ticket stays valid. */
  encore_status (*runner_wait)(encore_runner* runner, uint64_t ticket, int64_t timeout_us,
                               encore_error* error);
  /* Every submitted step has been waited for. Cannot fail. */
  void (*runner_free)(encore_runner* runner);

  /* Optional. Calls `visit` once for each counter; names are stable. Any thread. */
  encore_status (*stats)(encore_backend* backend, encore_stat_fn visit, void* context,
                         encore_error* error);

  /* Optional. A quick known-answer run of the device's kernels. After init(). */
  encore_status (*selftest)(encore_backend* backend, int32_t device, encore_error* error);

  /* Optional. The extension of that name, valid for the life of the process, or null. It starts
   * with its struct_size. Any thread, before init() too. */
  const void* (*get_extension)(encore_backend* backend, const char* name, uint64_t name_size);
} encore_backend_table;

/* The one exported function. Returns the plugin's table, the same at each call, or null with
 * `error` filled in. `host` is valid for the life of the process. Versions are compared by the
 * host: a plugin returns its table whatever the host's version. May be called more than once. */
typedef const encore_backend_table* (*encore_backend_entry_fn)(const encore_host_info* host,
                                                               encore_error* error);
const encore_backend_table* encore_backend_entry(const encore_host_info* host, encore_error* error);

#ifdef __cplusplus
} /* extern "C" */
#endif

/* NOLINTEND(modernize-use-using,readability-identifier-naming) */

#endif /* ENCORE_BACKEND_ABI_H_ */
