// The fake backend as built with another minor version of the ABI. ENCORE_TEST_MINOR above this
// one: structs and array elements are longer, and what this host does not know is poison. Else they
// are shorter, and the optional functions at the table's end are not there yet.
#include <cstddef>
#include <cstring>
#include <vector>

#include "encore/sdk/backend_plugin.h"
#include "fake_backend.h"

namespace {

constexpr bool kNewer = ENCORE_TEST_MINOR > ENCORE_ABI_MINOR;
constexpr size_t kExtraBytes = 40;
constexpr int kPoison = 0xA5;

// The size of T in the other version; `shorter` is where its older form ended.
template <typename T>
constexpr size_t other_size(size_t shorter) {
  return kNewer ? sizeof(T) + kExtraBytes : shorter;
}

// A copy of `count` elements with the other version's stride. Never freed: the test is short.
template <typename T>
const T* restride(const T* elements, size_t count, size_t stride) {
  auto* bytes = new std::vector<unsigned char>(count * stride + 1, kPoison);
  for (size_t i = 0; i < count; ++i) {
    std::memcpy(bytes->data() + i * stride, elements + i, std::min(stride, sizeof(T)));
  }
  static auto* const kept = new std::vector<std::vector<unsigned char>*>;  // so none is a leak
  kept->push_back(bytes);
  return reinterpret_cast<const T*>(bytes->data());
}

encore_status option_schema(encore_backend* self, encore_option_list* list, encore_error* error) {
  const encore_status code = encore::sdk::option_schema(self, list, error);
  list->options_stride = other_size<encore_option_schema>(offsetof(encore_option_schema, reserved));
  list->options = restride(list->options, list->options_count, list->options_stride);
  return code;
}

encore_status decode_capture(encore_model* model, encore_kv* kv,
                             const encore_capture_options* options, encore_runner** runner,
                             const encore_capture_report** report, encore_error* error) {
  const encore_status code = encore::sdk::create_runner<&encore::Model::capture_decode>(
      model, kv, options, runner, report, error);
  if (code != ENCORE_OK) return code;
  encore_capture_report other = **report;
  other.struct_size = other_size<encore_capture_report>(offsetof(encore_capture_report, total_us));
  other.buckets_stride =
      other_size<encore_bucket_report>(offsetof(encore_bucket_report, num_nodes));
  other.buckets = restride(other.buckets, other.buckets_count, other.buckets_stride);
  other.total_us = 4711;  // the older version has no such field: the host must not see it
  *report = restride(&other, 1, other.struct_size);
  return code;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const encore_backend_table* encore_backend_entry(
    const encore_host_info* host, encore_error* error) {
  const encore_backend_table* made = encore::sdk::entry<encore::FakeBackend>(host, error);
  if (made == nullptr) return nullptr;
  encore_backend_table table = *made;
  table.abi_minor = ENCORE_TEST_MINOR;
  table.struct_size = other_size<encore_backend_table>(offsetof(encore_backend_table, stats));
  table.option_schema = option_schema;
  table.decode_capture = decode_capture;
  return restride(&table, 1, table.struct_size);
}
