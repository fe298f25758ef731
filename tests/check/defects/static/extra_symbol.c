/* A function that a version script lets out beside the entry. */
__attribute__((visibility("default"))) int encore_test_extra(void) { return 1; }
