#include <gtest/gtest.h>

#include <cstdio>

#include "plugin_under_test.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    if (encore::testing::parse_plugin_argument(argv[i])) continue;
    std::fprintf(stderr, "unknown argument %s\n", argv[i]);
    return 2;
  }
  return RUN_ALL_TESTS();
}
