#include "interrupt.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>

namespace encore {
namespace {

std::atomic<bool> flag = false;
static_assert(std::atomic<bool>::is_always_lock_free, "used in a signal handler");

int event = -1;  // written before the handler is installed

void on_signal(int signal) {
  if (!flag.exchange(true)) {
    const int error = errno;
    const uint64_t one = 1;
    // It can only fail if the event is already as readable as it gets.
    [[maybe_unused]] const ssize_t written = write(event, &one, sizeof(one));
    errno = error;
    return;
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

void catch_interrupts() {
  if (event < 0) event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  // No SA_RESTART: a read from the terminal returns, so that chat can leave.
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

int interrupt_event() { return event; }

bool interrupted() { return flag.load(); }

void clear_interrupt() {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t taken = read(event, &count, sizeof(count));
  flag.store(false);
}

}  // namespace encore
