#include "fake_model.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <thread>

namespace encore {
namespace {

void throw_if_asked(const FakeOptions& options, const std::string& function) {
  if (options.throw_in == function) throw std::runtime_error("thrown in " + function);
}

}  // namespace

KvInfo FakeKv::info() const {
  return {.num_pages = options_.num_pages,
          .page_size = options_.page_size,
          .page_bytes = page_bytes(),
          .total_bytes = page_bytes() * options_.num_pages,
          .dtype = options_.dtype == DType::kInvalid ? DType::kBF16 : options_.dtype};
}

Status FakeKv::copy_pages(std::span<const PageCopy> copies) {
  for (const PageCopy& copy : copies) {
    std::copy_n(tokens_.begin() + int64_t{copy.source} * options_.page_size, options_.page_size,
                tokens_.begin() + int64_t{copy.destination} * options_.page_size);
  }
  return {};
}

Status FakeKv::read_page(int32_t page, std::span<std::byte> destination) const {
  std::memcpy(destination.data(), tokens_.data() + size_t(page) * size_t(options_.page_size),
              destination.size());
  return {};
}

ModelInfo FakeModel::info() const {
  return {.weight_bytes = weight_bytes_,
          .mapped_bytes = 0,
          .workspace_bytes = kWorkspaceBytes,
          .step_weight_bytes = weight_bytes_};
}

Result<std::unique_ptr<KvCache>> FakeModel::create_kv(const KvOptions& options) {
  throw_if_asked(options_, "create_kv");
  if (options.num_pages < 1 || options.page_size < 1) {
    return invalid_argument("num_pages and page_size must be at least 1");
  }
  const int64_t bytes = int64_t{options.num_pages} * options.page_size * int64_t{sizeof(int32_t)};
  if (memory_->total_bytes > 0 && memory_->used_bytes() + bytes > memory_->total_bytes) {
    return out_of_memory("the fake device has no " + std::to_string(bytes) + " bytes");
  }
  return std::unique_ptr<KvCache>(std::make_unique<FakeKv>(options, memory_));
}

Result<MemoryPlan> FakeModel::plan_memory(const KvOptions& kv, const CaptureOptions& options) {
  const size_t buckets = default_prefill_buckets(options.limits.max_tokens).size() +
                         default_decode_buckets(options.limits.max_requests).size();
  return MemoryPlan{.kv_page_bytes = kv.page_size * int64_t{sizeof(int32_t)},
                    .kv_fixed_bytes = 0,
                    .runner_bytes = kArenaBytes,
                    .executable_bytes = static_cast<int64_t>(buckets) * kExecutableBytes};
}

Result<RunnerCapture> FakeModel::create_eager(KvCache& kv, const CaptureOptions& options) {
  return capture(RunnerKind::kEager, kv, options, {}, 0);
}

Result<RunnerCapture> FakeModel::capture_prefill(KvCache& kv, const CaptureOptions& options) {
  const int32_t maximum = options.limits.max_tokens;
  return capture(
      RunnerKind::kPrefillGraph, kv, options,
      options.prefill_buckets.empty() ? default_prefill_buckets(maximum) : options.prefill_buckets,
      maximum);
}

Result<RunnerCapture> FakeModel::capture_decode(KvCache& kv, const CaptureOptions& options) {
  const int32_t maximum = options.limits.max_requests;
  return capture(
      RunnerKind::kDecodeGraph, kv, options,
      options.decode_buckets.empty() ? default_decode_buckets(maximum) : options.decode_buckets,
      maximum);
}

Result<RunnerCapture> FakeModel::capture(RunnerKind kind, KvCache& kv,
                                         const CaptureOptions& options, std::vector<int32_t> sizes,
                                         int32_t maximum) {
  throw_if_asked(options_, "capture");
  RunnerCapture made;
  Buckets buckets;
  if (kind != RunnerKind::kEager) {
    ENCORE_ASSIGN_OR_RETURN(buckets, Buckets::create(sizes, maximum));
  }
  const auto total = static_cast<int32_t>(buckets.sizes().size());
  for (int32_t i = total - 1; i >= 0; --i) {
    const int32_t size = buckets.sizes()[i];
    BucketReport report;
    report.bucket = size;
    report.arena_bytes = size;
    report.num_nodes = 3;
    report.num_segments = 1;
    report.executable_bytes = kExecutableBytes;
    made.report.executable_bytes += kExecutableBytes;
    if (size == options_.skip_bucket) {
      report = {.bucket = size, .reason = Reason::kOutOfMemory, .message = "asked to skip"};
    }
    made.report.buckets.push_back(report);
    if (options.progress) options.progress(total - i, total);
  }
  if (kind == RunnerKind::kEager) made.report.arena_bytes = kArenaBytes;
  made.runner = std::make_unique<FakeRunner>(
      *this, static_cast<FakeKv&>(kv), kind, buckets, options.padding,
      std::make_unique<FakeAllocation>(memory_, made.report.arena_bytes,
                                       made.report.executable_bytes));
  return made;
}

Status FakeModel::set_layer_observer(LayerObserver observer) {
  observer_ = std::move(observer);
  return {};
}

Status FakeModel::check_guards() const {
  if (!options_.damage_guards) return {};
  return internal_error("guard bytes after 'arena' are damaged; last step was 7");
}

RunnerCheck FakeRunner::check(const ForwardBatch& batch, const StepOutput& /*output*/) const {
  throw_if_asked(model_.options(), "check");
  if (kind_ == RunnerKind::kEager) return {};
  const bool decode = kind_ == RunnerKind::kDecodeGraph;
  if (decode && model_.observer()) return {.reason = Reason::kObserved};
  if (decode && batch.num_tokens() != batch.num_requests()) return {.reason = Reason::kNotDecode};
  const int32_t index = buckets_.find(decode ? batch.num_requests() : batch.num_tokens(), padding_);
  if (index < 0) {
    return {.reason = padding_ ? Reason::kTooManyTokens : Reason::kNoExactBucket};
  }
  const int32_t bucket = buckets_.sizes()[index];
  if (bucket == model_.options().skip_bucket) return {.reason = Reason::kOutOfMemory};
  return {.reason = Reason::kNone, .bucket = bucket};
}

// Stores the step's tokens in the pages, the promised ones resolved.
Status FakeRunner::write_tokens(const ForwardBatch& batch) {
  for (int32_t i = 0; i < batch.num_requests(); ++i) {
    const auto first = static_cast<size_t>(batch.page_start[i]);
    const auto pages = batch.page_ids.subspan(first, batch.page_start[i + 1] - first);
    for (int32_t row = batch.q_start[i]; row < batch.q_start[i + 1]; ++row) {
      int32_t token = batch.token_ids[row];
      if (token < 0) {
        const auto previous = static_cast<size_t>(-1 - token);
        if (previous >= kv_.last_sampled.size()) {
          return invalid_argument("token_ids[" + std::to_string(row) + "] is " +
                                  std::to_string(token) + "; the previous step sampled " +
                                  std::to_string(kv_.last_sampled.size()) + " rows");
        }
        token = kv_.last_sampled[previous];
      }
      kv_.token(pages, batch.positions[row]) = token;
    }
  }
  return {};
}

void FakeRunner::sample_row(const ForwardBatch& batch, const StepOutput& output, int32_t row) {
  const int32_t token_row = batch.logit_rows[row];
  const auto request = std::upper_bound(batch.q_start.begin(), batch.q_start.end(), token_row) -
                       batch.q_start.begin() - 1;
  const auto pages = batch.page_ids.subspan(static_cast<size_t>(batch.page_start[request]));
  uint64_t state = 0;
  for (int32_t p = 0; p <= batch.positions[token_row]; ++p) {
    state = fake_hash(state, kv_.token(pages, p));
  }
  logits_.resize(static_cast<size_t>(model_.spec().vocab_size));
  for (size_t v = 0; v < logits_.size(); ++v) {
    logits_[v] = fake_logit(state, static_cast<int64_t>(v));
  }
  if (!output.logits.empty()) {
    std::copy(logits_.begin(), logits_.end(),
              output.logits.begin() + row * static_cast<int64_t>(logits_.size()));
  }
  double sum = 0.0;
  for (const float logit : logits_) sum += std::exp(static_cast<double>(logit));
  const auto log_sum = static_cast<float>(std::log(sum));
  std::vector<float> biased = logits_;
  if (!batch.bias_start.empty()) {
    for (int32_t b = batch.bias_start[row]; b < batch.bias_start[row + 1]; ++b) {
      biased[static_cast<size_t>(batch.biases[b].token)] += batch.biases[b].bias;
    }
  }
  const auto valid = biased.begin() + std::min<int64_t>(batch.num_valid_tokens, logits_.size());
  const auto best = static_cast<int32_t>(std::max_element(biased.begin(), valid) - biased.begin());
  output.tokens[row] = best;
  output.row_status[row] = static_cast<int32_t>(RowStatus::kOk);
  kv_.last_sampled.push_back(best);
  const int32_t wanted = batch.sampling[row].num_logprobs;
  if (wanted < 0 || output.logprobs.empty()) return;
  output.logprobs[row] = logits_[static_cast<size_t>(best)] - log_sum;
  std::vector<int32_t> order(logits_.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return logits_[size_t(a)] > logits_[size_t(b)]; });
  for (int32_t k = 0; k < output.top_logprobs_width; ++k) {
    const int64_t at = int64_t{row} * output.top_logprobs_width + k;
    const bool present = k < wanted && k < static_cast<int32_t>(order.size());
    output.top_tokens[at] = present ? order[size_t(k)] : -1;
    output.top_logprobs[at] = present ? logits_[size_t(order[size_t(k)])] - log_sum : 0.0F;
  }
}

void FakeRunner::show_layers(const ForwardBatch& batch) const {
  const auto hidden_size = static_cast<int32_t>(model_.spec().hidden_size);
  std::vector<float> hidden(static_cast<size_t>(batch.num_tokens()) * size_t(hidden_size));
  for (int32_t layer = 0; layer < model_.spec().num_layers; ++layer) {
    for (size_t i = 0; i < hidden.size(); ++i) hidden[i] = static_cast<float>(layer) + float(i);
    model_.observer()({.layer = layer,
                       .num_tokens = batch.num_tokens(),
                       .hidden_size = hidden_size,
                       .hidden = hidden.data()});
  }
}

Result<Ticket> FakeRunner::submit(const ForwardBatch& batch, const StepOutput& output) {
  throw_if_asked(model_.options(), "submit");
  if (batch.positions.size() != batch.token_ids.size()) {
    return invalid_argument("positions has " + std::to_string(batch.positions.size()) +
                            " entries; token_ids has " + std::to_string(batch.token_ids.size()));
  }
  ENCORE_RETURN_IF_ERROR(write_tokens(batch));
  if (model_.observer()) show_layers(batch);
  kv_.last_sampled.clear();
  for (int32_t row = 0; row < batch.num_logit_rows(); ++row) sample_row(batch, output, row);
  in_flight_.push_back(next_ticket_);
  return next_ticket_++;
}

FakeRunner::~FakeRunner() {
  if (is_stuck()) std::this_thread::sleep_for(std::chrono::minutes(1));
}

Status FakeRunner::wait(Ticket ticket, int64_t timeout_us) {
  if (in_flight_.empty() || in_flight_.front() != ticket) {
    return failed_precondition("ticket " + std::to_string(ticket) + " is not the next in order");
  }
  if (timeout_us == 0 || is_stuck()) {
    return deadline_exceeded("step did not finish within " + std::to_string(timeout_us) + " us");
  }
  in_flight_.pop_front();
  return {};
}

}  // namespace encore
