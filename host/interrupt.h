// Ctrl-C as a flag that loops look at between steps.
#pragma once

namespace encore {

// From now on the first SIGINT or SIGTERM sets the flag and the second ends the process at once.
void catch_interrupts();

// Whether one has arrived. Any thread.
bool interrupted();

// Forgets it, so that the next one counts as the first again.
void clear_interrupt();

}  // namespace encore
