// Ctrl-C as a flag that loops look at between steps, and as an event to wait for.
#pragma once

namespace encore {

// From now on the first SIGINT or SIGTERM sets the flag and the second ends the process at once.
void catch_interrupts();

// Whether one has arrived. Any thread.
bool interrupted();

// A file descriptor that becomes readable with the first one, for who waits with poll(). Valid
// after catch_interrupts(), for the life of the process; do not read from it.
int interrupt_event();

// Forgets it, so that the next one counts as the first again.
void clear_interrupt();

}  // namespace encore
