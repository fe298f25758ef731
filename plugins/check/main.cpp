#include "check_command.h"

int main(int argc, char** argv) { return encore::check::check_command(argc, argv); }
