// What the plugin tests share: plugins by name, a small model, and a step of one request.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "encore/loader/plugin_loader.h"

namespace encore {

inline std::string test_plugin(const std::string& name) {
  return std::string(ENCORE_TEST_PLUGIN_DIR) + "/encore_backend_" + name + ".so";
}

inline HostInfo test_host() { return {.version = "test 1", .log = {}}; }

// Weights in memory: tensor i holds the bytes i, i+1, i+2, ...
class MemoryWeights : public WeightSource {
 public:
  MemoryWeights() {
    add("embed.weight", DType::kF32, {4, 2});
    add("norm.weight", DType::kF16, {6});
  }

  std::span<const WeightInfo> weights() const override { return infos_; }

  Status read(size_t index, int64_t offset, std::span<std::byte> destination) const override {
    const std::vector<std::byte>& bytes = data_[index];
    const auto size = static_cast<int64_t>(bytes.size());
    if (offset < 0 || offset > size || static_cast<int64_t>(destination.size()) > size - offset) {
      return invalid_argument("read of " + std::to_string(destination.size()) + " bytes from " +
                              std::to_string(offset) + " leaves " + infos_[index].name);
    }
    std::memcpy(destination.data(), bytes.data() + offset, destination.size());
    return {};
  }

  const std::byte* map(size_t index) const override {
    return index == 0 ? data_[0].data() : nullptr;
  }

  void release(size_t index) const override { released_.push_back(index); }

  const std::vector<size_t>& released() const { return released_; }

 private:
  void add(const std::string& name, DType dtype, const std::vector<int64_t>& shape) {
    int64_t elements = 1;
    for (const int64_t size : shape) elements *= size;
    const int64_t bytes = row_bytes(dtype, elements);
    std::vector<std::byte>& data = data_.emplace_back(static_cast<size_t>(bytes));
    for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(infos_.size() + i);
    infos_.push_back({.name = name, .dtype = dtype, .shape = shape, .bytes = bytes});
  }

  std::vector<WeightInfo> infos_;
  std::vector<std::vector<std::byte>> data_;
  mutable std::vector<size_t> released_;
};

inline ModelSpec small_spec() {
  ModelSpec spec;
  spec.architecture = "llama";
  spec.vocab_size = 64;
  spec.hidden_size = 4;
  spec.num_layers = 2;
  return spec;
}

inline CaptureOptions small_capture() {
  CaptureOptions options;
  options.limits = {.max_requests = 4, .max_tokens = 32, .max_context = 64};
  return options;
}

// A step of one request over pages 0, 1, ..., whose last token wants logits.
struct OneRequest {
  std::vector<int32_t> tokens, positions, q_start, kv_len, page_start, pages, logit_rows;
  std::vector<RowSampling> sampling = {RowSampling{}};
  int32_t sampled = -9;
  int32_t row_status = -9;
  std::vector<float> logits;

  OneRequest(std::vector<int32_t> new_tokens, int32_t cached, int32_t page_size = 4)
      : tokens(std::move(new_tokens)), logits(64) {
    const auto count = static_cast<int32_t>(tokens.size());
    for (int32_t i = 0; i < count; ++i) positions.push_back(cached + i);
    q_start = {0, count};
    kv_len = {cached + count};
    for (int32_t p = 0; p * page_size < kv_len[0]; ++p) pages.push_back(p);
    page_start = {0, static_cast<int32_t>(pages.size())};
    logit_rows = {count - 1};
  }

  ForwardBatch batch() const {
    ForwardBatch batch;
    batch.token_ids = tokens;
    batch.positions = positions;
    batch.q_start = q_start;
    batch.kv_len = kv_len;
    batch.page_start = page_start;
    batch.page_ids = pages;
    batch.logit_rows = logit_rows;
    batch.sampling = sampling;
    batch.num_valid_tokens = 64;
    return batch;
  }

  StepOutput output() {
    StepOutput output;
    output.tokens = {&sampled, 1};
    output.row_status = {&row_status, 1};
    output.logits = logits;
    return output;
  }
};

}  // namespace encore
