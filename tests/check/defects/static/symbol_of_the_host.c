/* What only the host's process happens to have. */
__attribute__((visibility("default"))) int encore_test_of_the_host(void) { return 1; }
