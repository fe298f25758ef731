// How far a long operation is: a bar on a terminal, a few plain lines otherwise.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace encore {

// Whether stderr is a terminal that can redraw a line.
bool stderr_is_terminal();

// One operation at a time, one thread. Writes to stderr, and only at log level info or below.
class Progress {
 public:
  // `bytes`: amounts are bytes and shown as such.
  Progress(std::string label, bool bytes);
  ~Progress();  // clears the bar if finish() was not called
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Draws at most ten times a second, or writes a line every five seconds.
  void update(int64_t done, int64_t total);

  // Replaces the bar by "LABEL: RESULT in 0.12 s".
  void finish(const std::string& result);

 private:
  void clear_line();

  std::string label_;
  bool bytes_;
  bool bar_;            // a terminal
  bool drawn_ = false;  // a bar is on the screen
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point shown_;
};

}  // namespace encore
