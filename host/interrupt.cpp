#include "interrupt.h"

#include <atomic>
#include <csignal>

namespace encore {
namespace {

std::atomic<bool> flag = false;
static_assert(std::atomic<bool>::is_always_lock_free, "used in a signal handler");

void on_signal(int signal) {
  if (!flag.exchange(true)) return;
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  // No SA_RESTART: a read from the terminal returns, so that chat can leave.
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool interrupted() { return flag.load(); }

void clear_interrupt() { flag.store(false); }

}  // namespace encore
