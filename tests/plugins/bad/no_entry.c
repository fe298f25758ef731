/* A shared library that is no plugin. */
int encore_test_no_entry(void);
__attribute__((visibility("default"))) int encore_test_no_entry(void) { return 1; }
