// Writes what a server in the middle of its work would answer to GET /metrics.
#include <cstdio>

#include "sample_metrics.h"

int main() {
  // A name that needs every kind of escaping.
  encore::ServerMetrics metrics("a \"quoted\" \\ name\nof two lines");
  metrics.observe(encore::token_event(1, 1, 40'000, 40'000));
  metrics.observe(encore::token_event(1, 2, 40'000, 55'000));
  metrics.observe(encore::token_event(1, 3, 40'000, 100'000, encore::FinishReason::kStop));
  metrics.observe(encore::token_event(2, 1, 3'000'000, 3'000'000));
  metrics.refused(429);
  metrics.refused(418);
  std::fputs(metrics.render(encore::sample_snapshot()).c_str(), stdout);
  return 0;
}
