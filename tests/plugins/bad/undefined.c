/* A plugin that was linked without -z defs and lacks a function. */
#include "encore/backend_abi.h"

int encore_test_nowhere_defined(void);

__attribute__((visibility("default"))) const encore_backend_table* encore_backend_entry(
    const encore_host_info* host, encore_error* error) {
  (void)host;
  error->code = encore_test_nowhere_defined();
  return 0;
}
