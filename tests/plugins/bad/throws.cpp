// A plugin that lets exceptions out: ENCORE_TEST_LIE "throw_<where>" says where. Built with the C++
// library shared with the host, and again with one of its own.
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "encore/sdk/backend_plugin.h"
#include "fake_backend.h"

namespace {

void throw_if(const char* where) {
  const char* lie = std::getenv("ENCORE_TEST_LIE");
  if (lie != nullptr && lie == std::string("throw_") + where) {
    throw std::runtime_error(std::string("thrown in ") + where);
  }
  if (lie != nullptr && lie == std::string("throw_number_") + where) throw 42;
}

struct AtStart {
  AtStart() { throw_if("start"); }
};
const AtStart kAtStart;

encore_status probe(encore_backend* self, encore_probe_result* result, encore_error* error) {
  throw_if("probe");
  return encore::sdk::probe(self, result, error);
}

encore_status option_schema(encore_backend* self, encore_option_list* list, encore_error* error) {
  throw_if("schema");
  return encore::sdk::option_schema(self, list, error);
}

encore_status init(encore_backend* self, const encore_option_value* values, uint64_t count,
                   uint64_t stride, encore_error* error) {
  throw_if("init");
  return encore::sdk::init(self, values, count, stride, error);
}

void shutdown_backend(encore_backend* self) {
  throw_if("shutdown");
  encore::sdk::shutdown(self);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const encore_backend_table* encore_backend_entry(
    const encore_host_info* host, encore_error* error) {
  throw_if("entry");
  const encore_backend_table* made = encore::sdk::entry<encore::FakeBackend>(host, error);
  if (made == nullptr) return nullptr;
  static encore_backend_table table;
  table = *made;
  table.probe = probe;
  table.option_schema = option_schema;
  table.init = init;
  table.shutdown = shutdown_backend;
  return &table;
}
