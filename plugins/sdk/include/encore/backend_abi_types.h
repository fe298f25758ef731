/* The structs, numbers and callbacks of the C ABI. Read backend_abi.h first: it has the rules that
 * these follow, and the functions that use them.
 */
#ifndef ENCORE_BACKEND_ABI_TYPES_H
#define ENCORE_BACKEND_ABI_TYPES_H

#include <stdint.h>

/* C names and typedefs by intent. NOLINTBEGIN(modernize-use-using,readability-identifier-naming) */

#ifdef __cplusplus
extern "C" {
#endif

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
#define ENCORE_CAPABILITY_ASYNC                                    \
  (UINT64_C(1) << 5) /* steps run by themselves; submit ahead pays \
                      */
#define ENCORE_CAPABILITY_DEVICE_MEMORY (UINT64_C(1) << 6) /* its memory is not the host's */

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
  int32_t dtype;     /* ENCORE_DTYPE_..., or 0: the plugin chooses */
  int32_t guards;    /* flag: canary bytes at both ends */
} encore_kv_options;

typedef struct encore_kv_info {
  uint64_t struct_size;
  int32_t num_pages;
  int32_t page_size;
  int64_t page_bytes;  /* one page over all layers */
  int64_t total_bytes; /* reserved pages included */
  int32_t dtype;       /* ENCORE_DTYPE_...; 0: not said */
  uint32_t reserved;
} encore_kv_info;

/* Device memory that KV cache and runners of a model will take. */
typedef struct encore_memory_plan {
  uint64_t struct_size;
  int64_t kv_page_bytes;    /* one page over all layers */
  int64_t kv_fixed_bytes;   /* a KV cache takes this and its pages */
  int64_t runner_bytes;     /* arena, static buffers, workspace still to be allocated */
  int64_t executable_bytes; /* of all buckets' graphs: an estimate */
} encore_memory_plan;

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
  int32_t lazy; /* flag: capture no bucket now, but when capture_bucket() asks */
  uint32_t reserved;
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
  int64_t host_bytes; /* of static_bytes, what lies in host memory */
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
  int32_t bucket; /* padded tokens or requests; with NOT_CAPTURED those of the missing bucket;
                     0 for eager or if it cannot run */
} encore_runner_verdict;

#ifdef __cplusplus
} /* extern "C" */
#endif

/* NOLINTEND(modernize-use-using,readability-identifier-naming) */

#endif /* ENCORE_BACKEND_ABI_TYPES_H */
