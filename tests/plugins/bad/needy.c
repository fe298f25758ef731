/* A plugin that needs two libraries. */
#include "encore/backend_abi.h"

int encore_test_first(void);
int encore_test_second(void);

__attribute__((visibility("default"))) const encore_backend_table* encore_backend_entry(
    const encore_host_info* host, encore_error* error) {
  (void)host;
  error->code = ENCORE_UNAVAILABLE + encore_test_first() - encore_test_second();
  return 0;
}
