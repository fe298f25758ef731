/* The boundary between the Encore host and a backend plugin, in plain C (C99 and C++): the rules
 * and the functions. backend_abi_types.h has the structs.
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
 * From 1.0 on only `minor` grows: a plugin once built keeps working until `major` changes.
 */
#ifndef ENCORE_BACKEND_ABI_H
#define ENCORE_BACKEND_ABI_H

#include <stdint.h>

#include "encore/backend_abi_types.h"

/* C names and typedefs by intent. NOLINTBEGIN(modernize-use-using,readability-identifier-naming) */

#ifdef __cplusplus
extern "C" {
#endif

#define ENCORE_ABI_MAGIC UINT64_C(0x494241524F434E45) /* the bytes "ENCORABI" */
#define ENCORE_ABI_MAJOR 1U                           /* host and plugin must have the same */
#define ENCORE_ABI_MINOR 1U                           /* grows when something is appended */
#define ENCORE_BACKEND_ENTRY_NAME "encore_backend_entry"

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
  /* Calls `observer` with every layer's output; a null one removes it. `observer` and `context`
   * (may be null) are valid until replaced or until model_free(): a runner captured with one looks
   * up the current one at each step. Not while a step is in flight. */
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

#define ENCORE_EXTENSION_MEMORY_PLAN "encore.memory_plan"
typedef struct encore_memory_plan_extension {
  uint64_t struct_size;
  /* What a KV cache and the three runners will take on the device. num_pages of `kv` does not
   * matter. May allocate some of it already: then that is no longer part of the plan. */
  encore_status (*plan)(encore_model* model, const encore_kv_options* kv,
                        const encore_capture_options* options, encore_memory_plan* plan,
                        encore_error* error);
} encore_memory_plan_extension;

#define ENCORE_EXTENSION_LAZY_CAPTURE "encore.lazy_capture"
typedef struct encore_lazy_capture_extension {
  uint64_t struct_size;
  /* Captures one bucket of a runner made with `lazy`, between steps or while one runs. *report
   * describes this bucket alone, is the plugin's memory and valid until the next call for the
   * runner or its runner_free().
   * Errors: ENCORE_NOT_FOUND if there is no such bucket; ENCORE_FAILED_PRECONDITION if it has been
   * captured. A bucket that cannot be captured is no error: its report says why. */
  encore_status (*capture_bucket)(encore_runner* runner, int32_t bucket,
                                  const encore_capture_report** report, encore_error* error);
} encore_lazy_capture_extension;

typedef struct encore_trace_event {
  uint64_t struct_size;
  const char* name; /* borrowed for the call */
  uint64_t name_size;
  double start_us; /* from the step's first event */
  double duration_us;
  int32_t lane; /* events of one lane follow each other */
  uint32_t reserved;
} encore_trace_event;

/* Receives one event of a traced step. Called from the thread that asked for the trace. */
typedef void (*encore_trace_event_fn)(void* context, const encore_trace_event* event);

#define ENCORE_EXTENSION_STEP_TRACE "encore.step_trace"
typedef struct encore_step_trace_extension {
  uint64_t struct_size;
  /* Runs a step as runner_submit() and runner_wait() do, and calls `visit` once for each thing that
   * it spent time on, in order of start. No step is in flight.
   * Errors: those of the two; ENCORE_UNIMPLEMENTED if the device cannot tell, and nothing ran. */
  encore_status (*trace)(encore_runner* runner, const encore_forward_batch* batch,
                         const encore_step_output* output, encore_trace_event_fn visit,
                         void* context, encore_error* error);
} encore_step_trace_extension;

/* Since 1.1. For tests of what follows a failed capture: encore-plugin-check uses it. */
#define ENCORE_EXTENSION_FAULT_INJECTION "encore.fault_injection"
typedef struct encore_fault_injection_extension {
  uint64_t struct_size;
  /* From now on, capturing a graph of this bucket fails, prefill or decode alike, as if the device
   * had refused it: ENCORE_REASON_OUT_OF_MEMORY or ENCORE_REASON_CAPTURE_FAILED is what the report
   * then says. ENCORE_REASON_NONE ends it.
   * Errors: ENCORE_INVALID_ARGUMENT for another reason. */
  encore_status (*fail_capture)(encore_model* model, int32_t bucket, int32_t reason,
                                encore_error* error);
} encore_fault_injection_extension;

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

  /* Optional. Calls `visit` once for each counter; names are stable. Any thread. The host reads
   * two: "memory.context_bytes", what driver and libraries take on the device, and
   * "memory.allocated_bytes", what the plugin has allocated there beside graphs. */
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

#endif /* ENCORE_BACKEND_ABI_H */
