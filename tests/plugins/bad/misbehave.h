/* What no plugin may do to its process. */
#ifndef ENCORE_TEST_MISBEHAVE_H
#define ENCORE_TEST_MISBEHAVE_H

/* Crashes, hangs, exits, prints or leaves a process behind if ENCORE_TEST_LIE is "crash_<when>",
 * "abort_<when>", "hang_<when>", "exit_<when>", "noise_<when>" or "orphan_<when>". What hangs first
 * writes its process id into the file that ENCORE_TEST_PID_FILE names, if it does. */
void misbehave(const char* when);

#endif
