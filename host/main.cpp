#include "command_line.h"

int main(int argc, char** argv) { return encore::command_line(argc, argv); }
