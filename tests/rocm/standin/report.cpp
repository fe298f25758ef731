#include "report.h"

#include <unistd.h>

#include <cstdio>

#include "call.h"
#include "capture.h"
#include "collective.h"
#include "control.h"
#include "device.h"
#include "faults.h"
#include "memory.h"
#include "misuse.h"
#include "settings.h"

namespace encore::standin {
namespace {

void add(std::string& text, int64_t count, const std::string& one, int64_t bytes = -1) {
  if (count == 0) return;
  if (!text.empty()) text += ", ";
  text += std::to_string(count) + " " + one + (count == 1 ? "" : "s");
  if (bytes >= 0) text += " (" + std::to_string(bytes) + " bytes)";
}

// Runs when the process ends or the library is closed, after those who use it.
__attribute__((destructor)) void write_report() {
  check_guards();
  const std::string left = held();
  const bool clean = left.empty() && misuses() == 0;
  const std::string line = "stand-in: process " + std::to_string(getpid()) + ": " +
                           (left.empty() ? "nothing" : left) + " left; used wrongly " +
                           std::to_string(misuses()) + " times\n";
  append_to_report(line);
  if (!clean && settings().report.empty()) std::fputs(line.c_str(), stderr);
}

const char* kept(std::string text) {
  thread_local std::string the_text;
  the_text = std::move(text);
  return the_text.c_str();
}

}  // namespace

std::string held() {
  std::string text;
  const Holdings device = holdings(Kind::kDevice);
  const Holdings host = holdings(Kind::kPageLocked);
  add(text, device.count, "device allocation", device.bytes);
  add(text, host.count, "page-locked allocation", host.bytes);
  add(text, streams().size(), "stream");
  add(text, events().size(), "event");
  add(text, graphs().size(), "graph");
  add(text, executables().size(), "executable graph");
  add(text, communicators(), "communicator");
  return text;
}

}  // namespace encore::standin

namespace standin = encore::standin;

void encore_standin_fail(const char* failures) {
  const standin::Lock lock(standin::run_time_mutex());
  standin::plan_failures(failures);
  standin::revive();
}

int64_t encore_standin_calls(const char* name) {
  const standin::Lock lock(standin::run_time_mutex());
  return standin::calls_of(name);
}

const char* encore_standin_all_calls() {
  const standin::Lock lock(standin::run_time_mutex());
  return standin::kept(standin::all_calls());
}

const char* encore_standin_held() {
  const standin::Lock lock(standin::run_time_mutex());
  return standin::kept(standin::held());
}

int64_t encore_standin_misuses() {
  const standin::Lock lock(standin::run_time_mutex());
  standin::check_guards();
  return standin::misuses();
}
