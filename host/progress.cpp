#include "progress.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "text_table.h"

namespace encore {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kBarWidth = 30;
constexpr auto kRedraw = std::chrono::milliseconds(100);
constexpr auto kLineEvery = std::chrono::seconds(5);

}  // namespace

bool stderr_is_terminal() {
  const char* term = std::getenv("TERM");
  return isatty(STDERR_FILENO) == 1 && term != nullptr && std::string_view(term) != "dumb";
}

Progress::Progress(std::string label, bool bytes)
    : label_(std::move(label)),
      bytes_(bytes),
      bar_(stderr_is_terminal()),
      start_(Clock::now()),
      shown_(start_) {}

Progress::~Progress() { clear_line(); }

void Progress::update(int64_t done, int64_t total) {
  const Clock::time_point now = Clock::now();
  const bool due = now - shown_ >= (bar_ ? Clock::duration(kRedraw) : Clock::duration(kLineEvery));
  if (!due || total <= 0 || !spdlog::should_log(spdlog::level::info)) return;
  shown_ = now;
  const double share = std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0);
  const std::string amounts = bytes_ ? format_bytes(static_cast<double>(done)) + " of " +
                                           format_bytes(static_cast<double>(total))
                                     : std::to_string(done) + " of " + std::to_string(total);
  if (!bar_) {
    spdlog::info("{}: {} ({:.0f} %)", label_, amounts, share * 100.0);
    return;
  }
  const auto filled = static_cast<size_t>(share * kBarWidth);
  const std::string bar = std::string(filled, '#') + std::string(kBarWidth - filled, '.');
  std::fprintf(stderr, "\r\033[K%s [%s] %s", label_.c_str(), bar.c_str(), amounts.c_str());
  std::fflush(stderr);
  drawn_ = true;
}

void Progress::finish(const std::string& result) {
  clear_line();
  const double us = std::chrono::duration<double, std::micro>(Clock::now() - start_).count();
  spdlog::info("{}: {} in {}", label_, result, format_us(us));
}

void Progress::clear_line() {
  if (!drawn_) return;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
  drawn_ = false;
}

}  // namespace encore
