// Rules R on what a row asks for beyond a token: log-probabilities, biases, penalties, a limit on
// ids. Each judges the plugin by its own logits.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "equality_rule_bodies.h"
#include "reference_sampler.h"
#include "sampled_rows.h"

namespace encore::check {
namespace {

constexpr int32_t kRows = 6;
constexpr int32_t kTopWidth = 8;
constexpr double kLogprobError = 5e-3;  // of sums over the vocabulary in f32
constexpr float kBan = -std::numeric_limits<float>::infinity();

std::vector<int32_t> ranked(std::span<const double> logits) {
  std::vector<int32_t> order(logits.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  return order;
}

Status check_top(const StepResult& result, size_t row, int32_t wanted,
                 std::span<const double> logprobs) {
  const std::string name = "row " + std::to_string(row) + ", most probable token ";
  const std::vector<int32_t> order = ranked(logprobs);
  for (int32_t place = 0; place < kTopWidth; ++place) {
    const auto at = static_cast<size_t>(place);
    const int32_t token = result.top_tokens[row][at];
    if (place >= wanted) {
      if (token == -1) continue;
      return broken(name + std::to_string(place) + " is " + std::to_string(token) +
                    "; the row asks for " + std::to_string(wanted) + ", so it must be -1");
    }
    // Where two are nearly equal either may come first.
    const double expected = logprobs[static_cast<size_t>(order[at])];
    const bool in_range = token >= 0 && static_cast<size_t>(token) < logprobs.size();
    const bool right_token =
        in_range && std::fabs(logprobs[static_cast<size_t>(token)] - expected) < kLogprobError;
    const auto found = static_cast<double>(result.top_logprobs[row][at]);
    if (right_token && std::fabs(found - expected) < kLogprobError) continue;
    return broken(name + std::to_string(place) + " is " + std::to_string(token) + " with " +
                  std::to_string(found) + "; expected " + std::to_string(order[at]) + " with " +
                  std::to_string(expected));
  }
  return {};
}

Status check_logprobs(SampledRows& rows, Runner& runner) {
  StepOptions options;
  options.num_top = kTopWidth;
  ENCORE_ASSIGN_OR_RETURN(const StepResult result, rows.run(runner, options));
  for (size_t row = 0; row < rows.size(); ++row) {
    const int32_t wanted = rows[row].sampling.num_logprobs;
    const int32_t token = result.tokens[row];
    if (wanted < 0 || token < 0 || token >= static_cast<int32_t>(result.logits[row].size())) {
      continue;
    }
    const std::vector<double> logprobs = log_softmax(widened(result.logits[row]));
    const double expected = logprobs[static_cast<size_t>(token)];
    const auto found = static_cast<double>(result.logprobs[row]);
    if (!(std::fabs(found - expected) < kLogprobError)) {
      return broken("row " + std::to_string(row) + ": the log-probability of token " +
                    std::to_string(token) + " is " + std::to_string(found) + "; expected " +
                    std::to_string(expected));
    }
    ENCORE_RETURN_IF_ERROR(check_top(result, row, wanted, logprobs));
  }
  return {};
}

// Each row's token is the highest of its logits after biases and penalties, but for rounding.
Status check_edited(SampledRows& rows, Runner& runner, const std::string& what) {
  ENCORE_ASSIGN_OR_RETURN(const StepResult result, rows.run(runner));
  for (size_t row = 0; row < rows.size(); ++row) {
    const Request& request = rows[row];
    const std::vector<double> logits = widened(result.logits[row]);
    const std::vector<double> edited =
        edited_logits(logits, request.sampling, request.biases, request.history);
    const int32_t expected = leader_of(edited).token;
    const int32_t token = result.tokens[row];
    const bool in_range = token >= 0 && static_cast<size_t>(token) < edited.size();
    const double lead =
        in_range ? edited[static_cast<size_t>(expected)] - edited[static_cast<size_t>(token)]
                 : std::numeric_limits<double>::infinity();
    if (result.row_status[row] == 0 && lead < kLogprobError) continue;
    return broken(what + ", row " + std::to_string(row) + ": token " + std::to_string(token) +
                  ", expected " + std::to_string(expected) + "; without them it would be " +
                  std::to_string(leader_of(logits).token));
  }
  return {};
}

// The row's tokens by falling logit.
Result<std::vector<std::vector<int32_t>>> ranked_rows(SampledRows& rows, Runner& runner) {
  ENCORE_ASSIGN_OR_RETURN(const StepResult result, rows.run(runner));
  std::vector<std::vector<int32_t>> orders;
  for (const std::vector<float>& logits : result.logits) orders.push_back(ranked(widened(logits)));
  return orders;
}

}  // namespace

Status logprobs_are_of_the_raw_logits(const EqualityRun& run) {
  ENCORE_ASSIGN_OR_RETURN(const auto subject, sampling_subject(run));
  ENCORE_ASSIGN_OR_RETURN(SampledRows rows,
                          SampledRows::create(*subject, kRows, SampledRows::Prompts::kDifferent));
  for (size_t row = 0; row < kRows; ++row) {
    RowSampling& sampling = rows[row].sampling;
    sampling.num_logprobs = row + 1 < kRows ? static_cast<int32_t>(row) - 1 : kTopWidth;
    sampling.seed = row;
    if (row % 3 == 1) sampling.temperature = 2.0F;
    if (row % 3 == 2) rows[row].biases = {{static_cast<int32_t>(7 * row), 50.0F}};
  }
  return with_each_runner(*subject, [&](Runner& runner) { return check_logprobs(rows, runner); });
}

Status biases_are_added(const EqualityRun& run) {
  ENCORE_ASSIGN_OR_RETURN(const auto subject, sampling_subject(run));
  ENCORE_ASSIGN_OR_RETURN(SampledRows rows,
                          SampledRows::create(*subject, kRows, SampledRows::Prompts::kDifferent));
  ENCORE_ASSIGN_OR_RETURN(const auto orders, ranked_rows(rows, subject->eager()));
  for (size_t row = 0; row < kRows; ++row) {
    const std::vector<int32_t>& order = orders[row];
    std::vector<TokenBias>& biases = rows[row].biases;
    if (row % 4 == 1) biases = {{order.back(), 100.0F}};
    if (row % 4 == 2) biases = {{order[0], kBan}, {order[1], kBan}};
    if (row % 4 == 3) biases = {{order[0], -3.0F}, {order[5], 4.0F}, {order[9], 3.0F}};
  }
  return with_each_runner(*subject,
                          [&](Runner& runner) { return check_edited(rows, runner, "biases"); });
}

Status penalties_are_applied(const EqualityRun& run) {
  ENCORE_ASSIGN_OR_RETURN(const auto subject, sampling_subject(run));
  ENCORE_ASSIGN_OR_RETURN(SampledRows rows,
                          SampledRows::create(*subject, kRows, SampledRows::Prompts::kDifferent));
  ENCORE_ASSIGN_OR_RETURN(const auto orders, ranked_rows(rows, subject->eager()));
  // The leading tokens: in the prompt, in the reply, in both; each penalty by itself, all, none.
  for (size_t row = 0; row < kRows; ++row) {
    const std::vector<int32_t>& order = orders[row];
    RowSampling& sampling = rows[row].sampling;
    rows[row].history = {{order[0], 2, 0}, {order[1], 0, 3}, {order[2], 1, 1}, {order[3], 0, 1}};
    if (row % 2 == 1) rows[row].history = {{order[0], 0, 3}, {order[1], 0, 1}, {order[2], 4, 0}};
    if (row < 2) sampling.repetition_penalty = 1.8F;
    if (row == 2) sampling.presence_penalty = 1.5F;
    if (row == 3) sampling.frequency_penalty = 0.7F;
    if (row == 4) {
      sampling.repetition_penalty = 1.2F;
      sampling.presence_penalty = 0.4F;
      sampling.frequency_penalty = 0.3F;
    }
  }
  return with_each_runner(*subject,
                          [&](Runner& runner) { return check_edited(rows, runner, "penalties"); });
}

Status valid_tokens_are_a_limit(const EqualityRun& run) {
  ENCORE_ASSIGN_OR_RETURN(const auto subject, sampling_subject(run));
  ENCORE_ASSIGN_OR_RETURN(SampledRows rows,
                          SampledRows::create(*subject, kRows, SampledRows::Prompts::kDifferent));
  ENCORE_ASSIGN_OR_RETURN(const auto orders, ranked_rows(rows, subject->eager()));
  StepOptions options;
  // Half of the rows' leading tokens are out of bounds.
  std::vector<int32_t> leaders;
  leaders.reserve(orders.size());
  for (const std::vector<int32_t>& order : orders) leaders.push_back(order[0]);
  std::sort(leaders.begin(), leaders.end());
  options.num_valid_tokens = std::max(leaders[kRows / 2], 1);
  for (size_t row = 0; row < kRows; ++row) {
    rows[row].sampling.temperature = row % 2 == 0 ? 0.0F : 5.0F;
  }
  return with_each_runner(*subject, [&](Runner& runner) -> Status {
    for (int32_t step = 0; step < repetitions(run, 20) + 4; ++step) {
      for (size_t row = 0; row < kRows; ++row) {
        rows[row].sampling.seed = static_cast<uint64_t>(step) * kRows + row;
      }
      ENCORE_ASSIGN_OR_RETURN(const StepResult result, rows.run(runner, options));
      const int32_t highest = *std::max_element(result.tokens.begin(), result.tokens.end());
      if (highest < options.num_valid_tokens) continue;
      return broken("token " + std::to_string(highest) + " was sampled, though ids end at " +
                    std::to_string(options.num_valid_tokens));
    }
    return {};
  });
}

}  // namespace encore::check
