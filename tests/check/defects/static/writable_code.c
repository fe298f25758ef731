/* A section that can be written and executed. */
__asm__(
    ".section .encore_test, \"awx\", @progbits\n"
    ".quad 1\n"
    ".text\n");
