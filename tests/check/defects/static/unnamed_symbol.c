/* Uses what no library that the plugin names has. */
int encore_test_of_the_host(void);
int encore_test_use(void) { return encore_test_of_the_host(); }
