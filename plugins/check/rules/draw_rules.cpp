// Rules R on random draws. The random numbers themselves are a device's own business.
#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "equality_rule_bodies.h"
#include "reference_sampler.h"
#include "sampled_rows.h"

namespace encore::check {
namespace {

constexpr int32_t kRows = 6;
constexpr double kMostExcess = 6.0;

// Compares draws of one row made twice. With equal logits the tokens are equal; where the logits
// differ by rounding, a draw may fall on the other side of an edge, but rarely.
class DrawComparison {
 public:
  Status add(const StepResult& found, size_t found_row, const StepResult& expected,
             size_t expected_row, const std::string& what) {
    ++num_draws_;
    if (found.tokens[found_row] == expected.tokens[expected_row]) return {};
    ++num_different_;
    last_ = what + ": token " + std::to_string(found.tokens[found_row]) + ", before " +
            std::to_string(expected.tokens[expected_row]);
    if (found.logits[found_row] != expected.logits[expected_row]) return {};
    return broken(last_ + ", from the same logits with the same seed and position");
  }
  Status end() const {
    if (num_different_ * kAllowedPart <= num_draws_) return {};
    return broken(std::to_string(num_different_) + " of " + std::to_string(num_draws_) +
                  " draws differ, though seed and position are the same; the last: " + last_);
  }

 private:
  static constexpr int32_t kAllowedPart = 8;  // one in eight: bf16 moves an edge by a few percent
  int32_t num_draws_ = 0;
  int32_t num_different_ = 0;
  std::string last_;
};

void set_streams(SampledRows& rows, int32_t round) {
  for (size_t row = 0; row < rows.size(); ++row) {
    RowSampling& sampling = rows[row].sampling;
    sampling.temperature = 1.0F;
    sampling.seed = 1000 + static_cast<uint64_t>(round) * 64 + row;
    rows[row].sampling_position = 7 + 3 * round + static_cast<int64_t>(row);
  }
}

// Alone, together, and in the opposite order.
Status compare_company(SampledRows& rows, Runner& runner, int32_t rounds) {
  DrawComparison comparison;
  for (int32_t round = 0; round < rounds; ++round) {
    set_streams(rows, round);
    ENCORE_ASSIGN_OR_RETURN(const StepResult together, rows.run(runner));
    std::vector<size_t> reversed(rows.size());
    std::iota(reversed.rbegin(), reversed.rend(), size_t{0});
    ENCORE_ASSIGN_OR_RETURN(const StepResult turned, rows.run(runner, reversed));
    for (size_t row = 0; row < rows.size(); ++row) {
      ENCORE_ASSIGN_OR_RETURN(const StepResult alone,
                              rows.run(runner, std::span<const size_t>(&row, 1)));
      const std::string name = "request " + std::to_string(row);
      ENCORE_RETURN_IF_ERROR(
          comparison.add(together, row, alone, 0,
                         name + " in a step of " + std::to_string(rows.size()) + " and alone"));
      const size_t place = rows.size() - 1 - row;
      ENCORE_RETURN_IF_ERROR(comparison.add(
          turned, place, together, row,
          name + " in row " + std::to_string(place) + " and in row " + std::to_string(row)));
    }
  }
  return comparison.end();
}

// Among draws from one row of logits, no token may come in more than half of them.
Status check_spread(const std::vector<int32_t>& tokens, const std::string& what) {
  std::map<int32_t, size_t> counts;
  for (const int32_t token : tokens) {
    if (++counts[token] * 2 > tokens.size() + 1) {
      return broken(what + " give token " + std::to_string(token) + " in more than half of " +
                    std::to_string(tokens.size()) + " draws; the stream does not depend on them");
    }
  }
  return {};
}

// At a temperature at which no token has more than a few percent, different seeds give different
// tokens, and so do different positions.
Status check_dependence(SampledRows& rows, Runner& runner) {
  for (const bool by_seed : {true, false}) {
    std::vector<int32_t> tokens;
    for (int32_t step = 0; step < 6; ++step) {
      for (size_t row = 0; row < rows.size(); ++row) {
        const auto number = static_cast<int64_t>(row) + step * kRows;
        rows[row].sampling.temperature = 3.0F;
        rows[row].sampling.seed = by_seed ? static_cast<uint64_t>(number) : 5;
        rows[row].sampling_position = by_seed ? 9 : number;
      }
      ENCORE_ASSIGN_OR_RETURN(const StepResult result, rows.run(runner));
      tokens.insert(tokens.end(), result.tokens.begin(), result.tokens.end());
    }
    ENCORE_RETURN_IF_ERROR(check_spread(
        tokens, by_seed ? "different seeds at one position" : "one seed at different positions"));
  }
  return {};
}

struct Draws {
  std::vector<int64_t> counts;
  std::vector<double> logits;
};

// `steps` steps of all rows with `sampling`, each draw with a seed and position of its own.
Result<Draws> draw(SampledRows& rows, Runner& runner, const RowSampling& sampling, int32_t steps) {
  Draws draws;
  for (int32_t step = 0; step < steps; ++step) {
    for (size_t row = 0; row < rows.size(); ++row) {
      rows[row].sampling = sampling;
      rows[row].sampling.seed = row % 2 == 0 ? static_cast<uint64_t>(step) : row;
      rows[row].sampling_position = row % 2 == 0 ? static_cast<int64_t>(row) : 100 + step;
    }
    ENCORE_ASSIGN_OR_RETURN(const StepResult result, rows.run(runner));
    draws.logits = widened(result.logits[0]);
    draws.counts.resize(draws.logits.size());
    for (const int32_t token : result.tokens) {
      if (token < 0 || static_cast<size_t>(token) >= draws.counts.size()) {
        return broken("token " + std::to_string(token) + " is none of the vocabulary's");
      }
      ++draws.counts[static_cast<size_t>(token)];
    }
  }
  return draws;
}

std::string filter_name(const RowSampling& sampling) {
  if (sampling.top_k > 0) return "top_k " + std::to_string(sampling.top_k);
  if (sampling.top_p < 1.0F) return "top_p " + std::to_string(sampling.top_p);
  return "min_p " + std::to_string(sampling.min_p);
}

Status check_filter(const Draws& draws, const RowSampling& sampling) {
  const std::vector<double> probabilities =
      probabilities_of(draws.logits, static_cast<double>(sampling.temperature));
  const Kept kept = kept_tokens(probabilities, sampling);
  double sure = 0.0;
  for (size_t i = 0; i < probabilities.size(); ++i) sure += kept.surely[i] ? probabilities[i] : 0.0;
  const auto num_draws = std::accumulate(draws.counts.begin(), draws.counts.end(), int64_t{0});
  for (size_t token = 0; token < probabilities.size(); ++token) {
    const std::string name = filter_name(sampling) + ": token " + std::to_string(token);
    if (draws.counts[token] > 0 && !kept.perhaps[token]) {
      return broken(name + " was drawn, though the filter leaves it out");
    }
    // Expected 30 times or more, it stays away once in 10^13 trials.
    const double expected = static_cast<double>(num_draws) * probabilities[token] / sure;
    if (draws.counts[token] == 0 && kept.surely[token] && expected > 30.0) {
      return broken(name + " was never drawn in " + std::to_string(num_draws) +
                    ", though the filter keeps it");
    }
  }
  return {};
}

}  // namespace

Status stream_is_seed_and_position(const EqualityRun& run) {
  ENCORE_ASSIGN_OR_RETURN(const auto subject, sampling_subject(run));
  ENCORE_ASSIGN_OR_RETURN(SampledRows rows,
                          SampledRows::create(*subject, kRows, SampledRows::Prompts::kDifferent));
  const Status each = with_each_runner(*subject, [&](Runner& runner) -> Status {
    ENCORE_RETURN_IF_ERROR(compare_company(rows, runner, repetitions(run, 10)));
    return check_dependence(rows, runner);
  });
  ENCORE_RETURN_IF_ERROR(each);
  DrawComparison comparison;
  for (int32_t round = 0; round < repetitions(run, 20) + 4; ++round) {
    set_streams(rows, round);
    ENCORE_ASSIGN_OR_RETURN(const StepResult eager, rows.run(subject->eager()));
    for (const NamedRunner& named : runners_of(*subject)) {
      ENCORE_ASSIGN_OR_RETURN(const StepResult other, rows.run(*named.runner));
      for (size_t row = 0; row < rows.size(); ++row) {
        ENCORE_RETURN_IF_ERROR(comparison.add(other, row, eager, row, named.name + " and eager"));
      }
    }
  }
  return comparison.end();
}

Status draws_follow_probabilities(const EqualityRun& run) {
  ENCORE_ASSIGN_OR_RETURN(const auto subject, sampling_subject(run));
  ENCORE_ASSIGN_OR_RETURN(SampledRows rows,
                          SampledRows::create(*subject, kRows, SampledRows::Prompts::kOne));
  return with_each_runner(*subject, [&](Runner& runner) -> Status {
    for (const float temperature : {0.5F, 1.0F}) {
      RowSampling sampling;
      sampling.temperature = temperature;
      ENCORE_ASSIGN_OR_RETURN(const Draws draws,
                              draw(rows, runner, sampling, repetitions(run, 250) + 50));
      const double excess = draw_excess(
          draws.counts, probabilities_of(draws.logits, static_cast<double>(temperature)));
      if (excess < kMostExcess) continue;
      return broken("draws at temperature " + std::to_string(temperature) +
                    " do not follow the probabilities: chi-square is " + std::to_string(excess) +
                    " standard deviations too high (limit " + std::to_string(kMostExcess) + ")");
    }
    return {};
  });
}

Status filters_keep_what_they_say(const EqualityRun& run) {
  ENCORE_ASSIGN_OR_RETURN(const auto subject, sampling_subject(run));
  ENCORE_ASSIGN_OR_RETURN(SampledRows rows,
                          SampledRows::create(*subject, kRows, SampledRows::Prompts::kOne));
  std::vector<RowSampling> filters(6);
  filters[0].top_k = 2;
  filters[1].top_k = 7;
  filters[2].top_p = 0.3F;
  filters[3].top_p = 0.7F;
  filters[4].min_p = 0.5F;
  filters[5].min_p = 0.1F;
  return with_each_runner(*subject, [&](Runner& runner) -> Status {
    for (RowSampling& sampling : filters) {
      sampling.temperature = 1.0F;
      ENCORE_ASSIGN_OR_RETURN(const Draws draws,
                              draw(rows, runner, sampling, repetitions(run, 50) + 50));
      ENCORE_RETURN_IF_ERROR(check_filter(draws, sampling));
    }
    return {};
  });
}

}  // namespace encore::check
