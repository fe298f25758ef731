/* A plugin in plain C that does as little as the ABI allows, and lies on request: the environment
 * variable ENCORE_TEST_LIE names what is wrong, read anew at each call. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "encore/backend_abi.h"
#include "lie.h"
#include "misbehave.h"

static encore_status fail(encore_error* error, encore_status code, const char* message) {
  error->code = code;
  error->message_size = (uint32_t)strlen(message);
  memcpy(error->message, message, error->message_size);
  return code;
}

static encore_status probe(encore_backend* self, encore_probe_result* result, encore_error* error) {
  (void)self, (void)error;
  misbehave("probe");
  if (lie("absent")) return ENCORE_OK;
  result->usable = 7;                           /* any nonzero flag is true */
  memcpy(result->reason, "caf\xC3\xA9\xFF", 6); /* ends in a byte that is not UTF-8 */
  result->reason_size = lie("reason_size") ? 0xFFFFFFFFU : 6;
  return ENCORE_OK;
}

static encore_status option_schema(encore_backend* self, encore_option_list* list,
                                   encore_error* error) {
  static const encore_option_schema kOption = {"speed", 5, "1", 1,  "Speed.", 6, NULL,
                                               0,       0, 0,   -1, 0,        0};
  static encore_option_schema bad_type;
  (void)self;
  if (lie("schema_fails")) return fail(error, ENCORE_UNAVAILABLE, "no schema today");
  list->options = &kOption;
  list->options_count = 1;
  list->options_stride = sizeof(kOption);
  if (lie("schema_null")) list->options = NULL;
  if (lie("schema_count")) list->options_count = UINT64_C(1) << 60;
  if (lie("schema_stride")) list->options_stride = 0;
  if (lie("schema_type")) {
    bad_type = kOption;
    bad_type.type = 99;
    list->options = &bad_type;
  }
  return ENCORE_OK;
}

static encore_status init(encore_backend* self, const encore_option_value* values, uint64_t count,
                          uint64_t stride, encore_error* error) {
  (void)self, (void)values, (void)count, (void)stride;
  misbehave("init");
  if (lie("init_fails")) return fail(error, ENCORE_INTERNAL, "the board does not answer");
  if (lie("init_unavailable")) return fail(error, ENCORE_UNAVAILABLE, "the board is in use");
  if (lie("code_unknown")) return fail(error, 99, "strange");
  if (lie("no_message")) return ENCORE_INTERNAL;
  if (lie("message_size")) {
    memset(error->message, 'x', sizeof(error->message));
    error->message_size = 0xFFFFFFFFU;
    return ENCORE_INTERNAL;
  }
  if (lie("native")) {
    error->native_code = 700;
    error->scope = ENCORE_SCOPE_DEVICE;
    return fail(error, ENCORE_INTERNAL, "illegal address");
  }
  if (lie("scope_unknown")) {
    error->scope = 77;
    return fail(error, ENCORE_INTERNAL, "strange");
  }
  return ENCORE_OK;
}

static void shutdown_backend(encore_backend* self) {
  (void)self;
  misbehave("shutdown");
}

static encore_status selftest(encore_backend* self, int32_t device, encore_error* error) {
  (void)self, (void)device;
  return fail(error, ENCORE_INTERNAL, "two and two are five");
}

static encore_status device_count(encore_backend* self, int32_t* count, encore_error* error) {
  (void)self, (void)error;
  *count = lie("device_count") ? -3 : 1;
  return ENCORE_OK;
}

static encore_status device_info(encore_backend* self, int32_t device, encore_device_info* info,
                                 encore_error* error) {
  (void)self, (void)device, (void)error;
  memset(info->id, 'i', sizeof(info->id));
  info->id_size = lie("id_size") ? 0xFFFFFFFFU : 3;
  return ENCORE_OK;
}

static encore_status device_memory(encore_backend* self, int32_t device,
                                   encore_device_memory* memory, encore_error* error) {
  (void)self, (void)device, (void)error;
  memory->total_bytes = lie("memory") ? -1 : 100;
  memory->free_bytes = 50;
  return ENCORE_OK;
}

static encore_status model_check(encore_backend* self, int32_t device,
                                 const encore_model_spec* spec, const encore_weight_info* weights,
                                 uint64_t count, uint64_t stride, encore_error* error) {
  (void)self, (void)device, (void)spec, (void)weights, (void)count, (void)stride, (void)error;
  return ENCORE_OK;
}

static encore_status model_load(encore_backend* self, int32_t device, const encore_model_spec* spec,
                                const encore_weight_source* weights,
                                const encore_load_options* options, encore_model** model,
                                encore_error* error) {
  static char handle;
  (void)self, (void)device, (void)spec, (void)options;
  if (lie("read_outside")) {
    char byte;
    return weights->read(weights->context, weights->weights_count, 0, &byte, 1, error);
  }
  if (lie("map_outside") && weights->map(weights->context, 1000000) != NULL) {
    return fail(error, ENCORE_INTERNAL, "map(1000000) is not null");
  }
  if (!lie("null_model")) *model = (encore_model*)&handle;
  return ENCORE_OK;
}

static encore_status model_info(encore_model* model, encore_model_info* info, encore_error* error) {
  (void)model, (void)error;
  info->weight_bytes = lie("model_info") ? INT64_MIN : 5;
  return ENCORE_OK;
}

static void model_free(encore_model* model) { (void)model; }

static encore_status kv_create(encore_model* model, const encore_kv_options* options,
                               encore_kv** kv, encore_error* error) {
  static char handle;
  (void)model, (void)options, (void)error;
  if (!lie("null_kv")) *kv = (encore_kv*)&handle;
  return ENCORE_OK;
}

static encore_status kv_info(encore_kv* kv, encore_kv_info* info, encore_error* error) {
  (void)kv, (void)error;
  info->num_pages = lie("kv_pages") ? 1000000 : 8;
  info->page_size = 4;
  info->page_bytes = lie("kv_bytes") ? -16 : 16;
  info->total_bytes = 128;
  return ENCORE_OK;
}

static encore_status kv_copy(encore_kv* kv, const encore_page_copy* copies, uint64_t count,
                             uint64_t stride, encore_error* error) {
  (void)kv, (void)copies, (void)count, (void)stride, (void)error;
  return ENCORE_OK;
}

static encore_status kv_read(encore_kv* kv, int32_t page, void* destination, uint64_t size,
                             encore_error* error) {
  (void)kv, (void)page, (void)error;
  memset(destination, 0, (size_t)size);
  return ENCORE_OK;
}

static void kv_free(encore_kv* kv) { (void)kv; }

static encore_status create_runner(encore_model* model, encore_kv* kv,
                                   const encore_capture_options* options, encore_runner** runner,
                                   const encore_capture_report** report, encore_error* error) {
  static char handle;
  static encore_bucket_report bucket;
  static encore_capture_report stored;
  (void)model, (void)kv, (void)options, (void)error;
  memset(&bucket, 0, sizeof(bucket));
  memset(&stored, 0, sizeof(stored));
  bucket.bucket = lie("bucket") ? 0 : 4;
  bucket.reason = lie("bucket_reason") ? 12345 : ENCORE_REASON_NONE;
  bucket.arena_bytes = lie("bucket_bytes") ? -1 : 10;
  stored.struct_size = lie("report_size") ? 0 : sizeof(stored);
  stored.buckets = lie("buckets_null") ? NULL : &bucket;
  stored.buckets_count = lie("buckets_count") ? UINT64_MAX : 1;
  stored.buckets_stride = lie("buckets_stride") ? UINT64_MAX : sizeof(bucket);
  stored.static_bytes = lie("report_bytes") ? INT64_MAX : 20;
  *report = lie("report_null") ? NULL : &stored;
  *runner = lie("runner_null") ? NULL : (encore_runner*)&handle;
  return ENCORE_OK;
}

static encore_status runner_check(encore_runner* runner, const encore_forward_batch* batch,
                                  const encore_step_output* output, encore_runner_verdict* verdict,
                                  encore_error* error) {
  (void)runner, (void)batch, (void)output;
  if (lie("check_fails")) return fail(error, ENCORE_INTERNAL, "check broke");
  verdict->reason = lie("verdict_reason") ? -5 : ENCORE_REASON_NONE;
  verdict->bucket = lie("verdict_bucket") ? -1 : 4;
  return ENCORE_OK;
}

static encore_status runner_submit(encore_runner* runner, const encore_forward_batch* batch,
                                   const encore_step_output* output, uint64_t* ticket,
                                   encore_error* error) {
  (void)runner, (void)batch, (void)output, (void)error;
  *ticket = 1;
  return ENCORE_OK;
}

static encore_status runner_wait(encore_runner* runner, uint64_t ticket, int64_t timeout_us,
                                 encore_error* error) {
  (void)runner, (void)ticket, (void)timeout_us, (void)error;
  return ENCORE_OK;
}

static void runner_free(encore_runner* runner) { (void)runner; }

static void fill(encore_backend_table* table) {
  memset(table, 0, sizeof(*table));
  table->magic = ENCORE_ABI_MAGIC;
  table->struct_size = sizeof(*table);
  table->abi_major = ENCORE_ABI_MAJOR;
  table->abi_minor = ENCORE_ABI_MINOR;
  table->name = "c";
  table->name_size = 1;
  table->probe = probe;
  table->option_schema = option_schema;
  table->init = init;
  table->shutdown = shutdown_backend;
  table->device_count = device_count;
  table->device_info = device_info;
  table->device_memory = device_memory;
  table->model_check = model_check;
  table->model_load = model_load;
  table->model_info = model_info;
  table->model_free = model_free;
  table->kv_create = kv_create;
  table->kv_info = kv_info;
  table->kv_copy = kv_copy;
  table->kv_read = kv_read;
  table->kv_free = kv_free;
  table->eager_create = create_runner;
  table->prefill_capture = create_runner;
  table->decode_capture = create_runner;
  table->runner_check = runner_check;
  table->runner_submit = runner_submit;
  table->runner_wait = runner_wait;
  table->runner_free = runner_free;
}

/* Leaves out the function that the lie "null_<function>" names. */
static void leave_out(encore_backend_table* table) {
#define ENCORE_TEST_FUNCTION(name) \
  if (lie("null_" #name)) table->name = NULL
  ENCORE_TEST_FUNCTION(probe);
  ENCORE_TEST_FUNCTION(option_schema);
  ENCORE_TEST_FUNCTION(init);
  ENCORE_TEST_FUNCTION(shutdown);
  ENCORE_TEST_FUNCTION(device_count);
  ENCORE_TEST_FUNCTION(device_info);
  ENCORE_TEST_FUNCTION(device_memory);
  ENCORE_TEST_FUNCTION(model_check);
  ENCORE_TEST_FUNCTION(model_load);
  ENCORE_TEST_FUNCTION(model_info);
  ENCORE_TEST_FUNCTION(model_free);
  ENCORE_TEST_FUNCTION(kv_create);
  ENCORE_TEST_FUNCTION(kv_info);
  ENCORE_TEST_FUNCTION(kv_copy);
  ENCORE_TEST_FUNCTION(kv_read);
  ENCORE_TEST_FUNCTION(kv_free);
  ENCORE_TEST_FUNCTION(eager_create);
  ENCORE_TEST_FUNCTION(prefill_capture);
  ENCORE_TEST_FUNCTION(decode_capture);
  ENCORE_TEST_FUNCTION(runner_check);
  ENCORE_TEST_FUNCTION(runner_submit);
  ENCORE_TEST_FUNCTION(runner_wait);
  ENCORE_TEST_FUNCTION(runner_free);
#undef ENCORE_TEST_FUNCTION
}

__attribute__((visibility("default"))) const encore_backend_table* encore_backend_entry(
    const encore_host_info* host, encore_error* error) {
  static encore_backend_table table;
  (void)host;
  fill(&table);
  misbehave("entry");
  if (lie("message_unterminated")) {
    memset(error->message, 'x', sizeof(error->message));
    error->message_size = 0xFFFFFFFFU;
    return NULL;
  }
  if (lie("message_not_utf8")) {
    fail(error, ENCORE_UNAVAILABLE, "driver \xC3\x28 too old");
    return NULL;
  }
  if (lie("entry_fails")) {
    fail(error, ENCORE_UNAVAILABLE, "no driver");
    return NULL;
  }
  if (lie("entry_null")) return NULL;
  if (lie("magic")) table.magic ^= 1;
  if (lie("major")) table.abi_major = 7;
  if (lie("size_zero")) table.struct_size = 0;
  if (lie("size_small")) table.struct_size = 200;
  if (lie("size_huge")) table.struct_size = UINT64_C(1) << 40;
  if (lie("unaligned")) return (const encore_backend_table*)((const char*)&table + 1);
  if (lie("function_null")) {
    table.kv_read = NULL;
    table.runner_wait = NULL;
  }
  if (lie("selftest_fails")) table.selftest = selftest;
  leave_out(&table);
  if (lie("name_empty")) table.name_size = 0;
  if (lie("name_path")) {
    table.name = "../etc";
    table.name_size = 6;
  }
  if (lie("name_long")) {
    static char long_name[5000];
    memset(long_name, 'n', sizeof(long_name));
    table.name = long_name;
    table.name_size = sizeof(long_name);
  }
  return &table;
}
