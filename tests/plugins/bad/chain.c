/* A library that needs another one. */
int encore_test_chain(void);
int encore_test_second(void);
__attribute__((visibility("default"))) int encore_test_chain(void) { return encore_test_second(); }
