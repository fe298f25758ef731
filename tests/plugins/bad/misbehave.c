#define _POSIX_C_SOURCE 200809L

#include "misbehave.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "lie.h"

static int is(const char* what, const char* when) {
  char text[64];
  snprintf(text, sizeof(text), "%s_%s", what, when);
  return lie(text);
}

static void stay(void) {
  const char* path = getenv("ENCORE_TEST_PID_FILE");
  FILE* file = path != NULL ? fopen(path, "w") : NULL;
  if (file != NULL) {
    fprintf(file, "%ld\n", (long)getpid());
    fclose(file);
  }
  for (;;) pause();
}

static void print(void) {
  int i;
  for (i = 0; i < 20000; ++i) {
    printf("noise on stdout, line %d\n", i);
    fprintf(stderr, "noise on stderr, line %d \033[31m\xff\n", i);
  }
  fflush(stdout);
}

void misbehave(const char* when) {
  if (is("crash", when)) raise(SIGSEGV);
  if (is("abort", when)) abort();
  if (is("exit", when)) exit(0);
  if (is("hang", when)) stay();
  if (is("noise", when)) print();
  if (is("orphan", when) && fork() == 0) stay();
}

__attribute__((constructor)) static void at_start(void) { misbehave("start"); }
__attribute__((destructor)) static void at_end(void) { misbehave("end"); }
