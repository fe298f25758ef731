/* A symbol that all libraries of a process share: what GCC makes of a static in an inline function.
 */
__asm__(
    ".data\n"
    ".globl encore_test_extra\n"
    ".type encore_test_extra, @gnu_unique_object\n"
    ".size encore_test_extra, 8\n"
    "encore_test_extra: .quad 1\n"
    ".text\n");
