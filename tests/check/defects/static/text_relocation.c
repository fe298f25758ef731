/* An address in the code, which the linker has to fill in while loading. */
__asm__(
    ".text\n"
    ".balign 8\n"
    "encore_test_code: .quad encore_test_code\n");
