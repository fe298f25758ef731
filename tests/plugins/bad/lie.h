/* How the tests tell a plugin to misbehave: ENCORE_TEST_LIE names what, read anew each time, in the
 * tests' process and in the probe's. */
#ifndef ENCORE_TEST_LIE_H
#define ENCORE_TEST_LIE_H

#include <stdlib.h>
#include <string.h>

static int lie(const char* name) {
  const char* wanted = getenv("ENCORE_TEST_LIE");
  return wanted != NULL && strcmp(wanted, name) == 0;
}

#endif
