#include "bench_serve_load.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "interrupt.h"
#include "progress.h"

namespace encore {
namespace {

using Clock = LoadClient::Clock;

// How often Ctrl-C and the progress bar are looked at.
constexpr auto kTick = std::chrono::milliseconds(100);

double seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

class Load {
 public:
  Load(LoadClient& client, const LoadPlan& plan)
      : client_(client), plan_(plan), start_(Clock::now()), last_end_(start_) {}

  LoadOutcome run(const std::string& label) {
    Progress progress(label, false);
    outcome_.records.reserve(plan_.bodies.size());
    arrive();
    while (!finished() && !interrupted()) {
      client_.run_until([this] { return finished() || interrupted(); }, Clock::now() + kTick);
      progress.update(num_ended(), static_cast<int64_t>(plan_.bodies.size()));
    }
    outcome_.duration_s = seconds(last_end_ - start_);
    return std::move(outcome_);
  }

 private:
  bool finished() const { return outcome_.records.size() == plan_.bodies.size(); }
  int64_t num_ended() const { return static_cast<int64_t>(outcome_.records.size()); }

  // Takes in all that are due by now, and comes back for the next.
  void arrive() {
    const double now_s = seconds(Clock::now() - start_);
    while (num_arrived_ < plan_.bodies.size() && plan_.arrivals_s[num_arrived_] <= now_s) {
      ++num_arrived_;
    }
    send();
    if (num_arrived_ == plan_.bodies.size()) return;
    const auto wait = std::chrono::duration<double>(plan_.arrivals_s[num_arrived_]);
    client_.call_at(start_ + std::chrono::duration_cast<Clock::duration>(wait),
                    [this] { arrive(); });
  }

  void send() {
    while (num_sent_ < num_arrived_ &&
           (plan_.concurrency <= 0 || num_running_ < plan_.concurrency)) {
      ++num_running_;
      send_one(num_sent_++);
    }
  }

  void send_one(size_t index) {
    const Clock::time_point sent = Clock::now();
    auto reply = std::make_shared<StreamedReply>();
    client_.post(
        plan_.path, plan_.bodies[index],
        {.head = [reply](int32_t status) { reply->head(status); },
         .data = [reply, sent](
                     std::string_view bytes) { reply->feed(bytes, seconds(Clock::now() - sent)); },
         .end =
             [this, reply, sent](const std::string& broken) {
               end_one(reply->finish(seconds(Clock::now() - sent), broken));
             }});
  }

  void end_one(LoadRecord record) {
    last_end_ = Clock::now();
    outcome_.records.push_back(std::move(record));
    --num_running_;
    send();
  }

  LoadClient& client_;
  const LoadPlan& plan_;
  const Clock::time_point start_;
  Clock::time_point last_end_;
  LoadOutcome outcome_;
  size_t num_arrived_ = 0;
  size_t num_sent_ = 0;
  int32_t num_running_ = 0;
};

}  // namespace

LoadOutcome run_load(LoadClient& client, const LoadPlan& plan, const std::string& label) {
  return Load(client, plan).run(label);
}

}  // namespace encore
