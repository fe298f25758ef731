/* The library that another plugin needs; ENCORE_TEST_FUNCTION names its function. */
int ENCORE_TEST_FUNCTION(void);
__attribute__((visibility("default"))) int ENCORE_TEST_FUNCTION(void) { return 1; }
