/* A function that glibc keeps for itself. */
int __libc_alloca_cutoff(unsigned long size);
int encore_test_private(void) { return __libc_alloca_cutoff(1); }
