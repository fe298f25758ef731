// A device in memory that runs steps late and in order, like a real one.
//
// Its KV cache holds what each position's token was, and attention reads it back through the page
// table: a wrong page table, a page written by two requests, a page shared before it is written, or
// a step run out of order gives wrong tokens, and mostly a line in `violations` too.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "encore/backend.h"
#include "encore/forward_batch.h"
#include "encore/runner.h"
#include "fake_sampling.h"

namespace encore::fake {

// A step as the device got it: the batch copied, the output borrowed.
struct Work {
  Ticket ticket = 0;
  std::vector<int32_t> token_ids, positions, q_start, kv_len, page_start, page_ids, logit_rows;
  std::vector<RowSampling> sampling;
  std::vector<int32_t> bias_start, history_start;
  std::vector<TokenBias> biases;
  std::vector<TokenCount> history;
  int32_t num_valid_tokens = 0;
  StepOutput output;
};

class Device {
 public:
  explicit Device(const KvOptions& kv)
      : page_size_(kv.page_size),
        slots_(static_cast<size_t>(kv.num_pages) * kv.page_size),
        filled_(kv.num_pages, 0) {}

  // Replies that are not the model's own: by first token of the prompt, its length and the tokens.
  struct Script {
    size_t prompt_size = 0;
    std::vector<int32_t> tokens;
  };
  std::map<int32_t, Script> scripts;
  // Rows that come out as NaN: first token of the prompt, position sampled.
  std::set<std::pair<int32_t, int64_t>> nan_at;
  Status fail_wait;                     // what every wait says from now on
  std::function<void()> before_wait;    // may be empty
  std::vector<std::string> violations;  // what no correct engine makes happen
  int64_t num_steps = 0;
  int64_t tokens_run = 0;
  int32_t most_requests = 0;  // in one step
  int32_t most_tokens = 0;

  Ticket enqueue(Work work) {
    work.ticket = ++last_ticket_;
    queue_.push_back(std::move(work));
    return last_ticket_;
  }

  Status wait(Ticket ticket) {
    if (before_wait) before_wait();
    if (!fail_wait.ok()) return fail_wait;
    while (!queue_.empty() && queue_.front().ticket <= ticket) {
      run(queue_.front());
      queue_.pop_front();
    }
    return {};
  }

 private:
  struct Slot {
    int32_t token = -1;
    int32_t position = -1;
  };

  void require(bool holds, const std::string& what) {
    if (!holds) violations.push_back("step " + std::to_string(num_steps) + ": " + what);
  }

  size_t slot_of(const Work& work, size_t request, int32_t position) {
    const size_t page = work.page_ids[work.page_start[request] + position / page_size_];
    return page * page_size_ + position % page_size_;
  }

  void run(const Work& work) {
    ++num_steps;
    const size_t num_requests = work.kv_len.size();
    most_requests = std::max(most_requests, static_cast<int32_t>(num_requests));
    most_tokens = std::max(most_tokens, static_cast<int32_t>(work.token_ids.size()));
    tokens_run += std::ssize(work.token_ids);
    std::vector<int32_t> tokens = work.token_ids;
    for (int32_t& token : tokens) {
      if (token >= 0) continue;
      require(static_cast<size_t>(-1 - token) < last_sampled_.size(), "no such row last step");
      // A row without a token is followed by a step that is thrown away: any token will do.
      token = std::max(0, last_sampled_.at(-1 - token));
    }
    std::map<int32_t, size_t> writers;
    for (size_t request = 0; request < num_requests; ++request) {
      for (int32_t i = work.q_start[request]; i < work.q_start[request + 1]; ++i) {
        const size_t slot = slot_of(work, request, work.positions[i]);
        note_write(static_cast<int32_t>(slot / page_size_), work.positions[i] % page_size_);
        require(writers.emplace(slot / page_size_, request).first->second == request,
                "a page is written by two requests");
        slots_[slot] = {tokens[i], work.positions[i]};
      }
    }
    last_sampled_.assign(work.logit_rows.size(), -1);
    for (size_t row = 0, request = 0; row < work.logit_rows.size(); ++row) {
      while (work.q_start[request + 1] <= work.logit_rows[row]) ++request;
      sample(work, row, request, tokens);
    }
  }

  // Who gets a page writes it from its start to its end, once.
  void note_write(int32_t page, int32_t offset) {
    if (offset == 0) filled_[page] = 0;
    require(offset == filled_[page], "a slot is written twice or one is left out");
    filled_[page] = offset + 1;
  }

  std::vector<int32_t> read_tokens(const Work& work, size_t request, int32_t end) {
    std::vector<int32_t> tokens(end);
    for (int32_t position = 0; position < end; ++position) {
      const Slot& slot = slots_[slot_of(work, request, position)];
      require(slot.position == position, "position " + std::to_string(position) + " is not there");
      tokens[position] = slot.token;
    }
    return tokens;
  }

  void sample(const Work& work, size_t row, size_t request, const std::vector<int32_t>& input) {
    const int32_t token_row = work.logit_rows[row];
    const std::vector<int32_t> tokens = read_tokens(work, request, work.positions[token_row] + 1);
    const RowSampling& sampling = work.sampling[row];
    require(sampling.position == static_cast<int64_t>(tokens.size()), "wrong sampling position");
    StepOutput output = work.output;
    output.row_status[row] = static_cast<int32_t>(RowStatus::kOk);
    std::vector<double> logits = logits_after(tokens);
    if (!output.logprobs.empty()) fill_logprobs(logits, work.num_valid_tokens, row, output);
    std::map<int32_t, Counts> counts;
    if (!work.history_start.empty()) {
      for (int32_t i = work.history_start[row]; i < work.history_start[row + 1]; ++i) {
        const TokenCount& entry = work.history[i];
        require(counts.emplace(entry.token, Counts{entry.in_prompt, entry.in_output}).second,
                "a token twice in a history");
      }
    }
    if (work.token_ids[token_row] < 0 && is_penalised(sampling)) {
      ++counts[input[token_row]].in_output;
    }
    penalise(logits, sampling, counts);
    if (!work.bias_start.empty()) {
      for (int32_t i = work.bias_start[row]; i < work.bias_start[row + 1]; ++i) {
        logits[work.biases[i].token] += work.biases[i].bias;
      }
    }
    if (nan_at.count({tokens[0], sampling.position}) > 0) {
      output.row_status[row] = static_cast<int32_t>(RowStatus::kNonFinite);
      output.tokens[row] = -1;
      return;
    }
    output.tokens[row] = scripted(tokens, sampling);
    if (output.tokens[row] < 0) output.tokens[row] = pick(logits, sampling, work.num_valid_tokens);
    last_sampled_[row] = output.tokens[row];
  }

  static bool is_penalised(const RowSampling& row) {
    return row.repetition_penalty != 1.0F || row.presence_penalty != 0.0F ||
           row.frequency_penalty != 0.0F;
  }

  int32_t scripted(const std::vector<int32_t>& tokens, const RowSampling& sampling) const {
    const auto found = scripts.find(tokens[0]);
    if (found == scripts.end()) return -1;
    const size_t index = static_cast<size_t>(sampling.position) - found->second.prompt_size;
    return index < found->second.tokens.size() ? found->second.tokens[index] : -1;
  }

  // Not log-probabilities, but as good for seeing whether they arrive: the logits themselves.
  static void fill_logprobs(const std::vector<double>& logits, int32_t num_valid, size_t row,
                            StepOutput& output) {
    std::vector<std::pair<double, int32_t>> order;
    order.reserve(num_valid);
    for (int32_t token = 0; token < num_valid; ++token) order.push_back({-logits[token], token});
    std::sort(order.begin(), order.end());
    output.logprobs[row] = static_cast<float>(-order[0].first);
    for (int32_t i = 0; i < output.top_logprobs_width; ++i) {
      const size_t at = row * output.top_logprobs_width + i;
      output.top_tokens[at] = order[i].second;
      output.top_logprobs[at] = static_cast<float>(-order[i].first);
    }
  }

  int32_t page_size_;
  std::vector<Slot> slots_;
  std::vector<int32_t> filled_;  // [num_pages], slots written since its first
  std::deque<Work> queue_;
  std::vector<int32_t> last_sampled_;
  Ticket last_ticket_ = 0;
};

}  // namespace encore::fake
