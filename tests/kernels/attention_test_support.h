// A paged cache of a few requests, attention run over chosen parts of them, and the same in double.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "half.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/quant.h"
#include "ops_test_support.h"

namespace encore::kernels {

struct AttentionShape {
  WeightType type;
  int32_t num_heads;
  int32_t num_kv_heads;
  int32_t head_dim;
  int32_t page_size;

  KvLayout layout() const { return {type, num_kv_heads, head_dim, page_size}; }
  int32_t q_size() const { return num_heads * head_dim; }
};

// Tokens [begin, end) of a request, the last of its positions so far.
struct Chunk {
  int32_t request;
  int32_t begin;
  int32_t end;
};

// Keys and values are multiples of 1/16 in [-2, 2], which every cache type holds exactly. Slots
// without a token, page gaps and the ends of last pages are NaN.
class AttentionWorld {
 public:
  AttentionWorld(const AttentionShape& shape, std::vector<int32_t> lengths, uint32_t seed)
      : shape_(shape), lengths_(std::move(lengths)) {
    std::mt19937 random(seed);
    int32_t pages = 1;
    for (const int32_t length : lengths_) pages += pages_of(length);
    page_stride_bytes_ = shape_.layout().page_bytes() + 64;
    cache_ = std::make_unique<Aligned<std::byte>>(pages * page_stride_bytes_);
    std::vector<int32_t> order(pages);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    size_t next = 0;
    for (const int32_t length : lengths_) {
      auto& ids = page_ids_.emplace_back();
      for (int32_t i = 0; i < pages_of(length); ++i) ids.push_back(order[next++]);
      const size_t kv = static_cast<size_t>(length) * shape_.num_kv_heads * shape_.head_dim;
      for (auto* all : {&k_, &v_}) {
        auto& values = all->emplace_back(kv);
        for (float& x : values) x = static_cast<float>(static_cast<int>(random() % 65) - 32) / 16;
      }
      q_.push_back(random_floats(static_cast<size_t>(length) * shape_.q_size(),
                                 seed + static_cast<uint32_t>(next)));
    }
    for (size_t r = 0; r < lengths_.size(); ++r) write_request(static_cast<int32_t>(r));
  }

  const AttentionShape& shape() const { return shape_; }

  void scale_queries(float factor) {
    for (auto& rows : q_) {
      for (float& x : rows) x *= factor;
    }
  }

  // Rows of all chunks, in order: [tokens, q_size]. Fails the test if anything else was written.
  std::vector<float> run(IsaLevel level, const std::vector<Chunk>& chunks, int32_t threads) {
    const int32_t width = shape_.q_size();
    constexpr int32_t kGap = 5;
    std::vector<int32_t> q_start = {0};
    std::vector<int32_t> page_start = {0};
    std::vector<int32_t> kv_len;
    std::vector<int32_t> page_ids;
    std::vector<float> q;
    int32_t longest = 0;
    for (const Chunk& chunk : chunks) {
      const float* rows = q_[chunk.request].data() + static_cast<int64_t>(chunk.begin) * width;
      q.insert(q.end(), rows, rows + static_cast<int64_t>(chunk.end - chunk.begin) * width);
      q_start.push_back(q_start.back() + chunk.end - chunk.begin);
      kv_len.push_back(chunk.end);
      longest = std::max(longest, chunk.end);
      const auto& ids = page_ids_[chunk.request];
      page_ids.insert(page_ids.end(), ids.begin(), ids.begin() + pages_of(chunk.end));
      page_start.push_back(static_cast<int32_t>(page_ids.size()));
    }
    const size_t rows = q_start.back();
    std::vector<float> out((rows + 3) * (width + kGap), kPoison);
    const auto requests = static_cast<int32_t>(chunks.size());
    const int64_t workspace_bytes =
        attention_workspace_bytes(shape_.layout(), shape_.num_heads, longest, threads);
    Aligned<std::byte> workspace(workspace_bytes);
    AttentionArgs args{};
    args.num_requests = &requests;
    args.q_start = q_start.data();
    args.kv_len = kv_len.data();
    args.page_start = page_start.data();
    args.page_ids = page_ids.data();
    args.q = q.data();
    args.q_stride = width;
    args.out = out.data();
    args.out_stride = width + kGap;
    args.kv = {cache_->data(), page_stride_bytes_, shape_.layout()};
    args.num_heads = shape_.num_heads;
    args.scale = scale();
    args.workspace = reinterpret_cast<float*>(workspace.data());
    args.workspace_bytes = workspace_bytes;
    run_team(attention_kernel(level), args, threads,
             attention_scratch_bytes(shape_.layout(), shape_.num_heads));

    std::vector<float> result;
    for (size_t row = 0; row < rows; ++row) {
      const float* p = out.data() + row * (width + kGap);
      result.insert(result.end(), p, p + width);
      EXPECT_TRUE(all_poison(p + width, kGap)) << "between rows " << row << " and " << row + 1;
    }
    EXPECT_TRUE(all_poison(out.data() + rows * (width + kGap), 3 * (width + kGap)));
    return result;
  }

  // Row `token` of `request` by a plain softmax in double.
  std::vector<double> expected(int32_t request, int32_t token) const {
    const int32_t group = shape_.num_heads / shape_.num_kv_heads;
    const int32_t dim = shape_.head_dim;
    std::vector<double> out(shape_.q_size(), 0.0);
    std::vector<double> weights(token + 1);
    for (int32_t h = 0; h < shape_.num_heads; ++h) {
      const float* q = q_[request].data() + static_cast<int64_t>(token) * shape_.q_size() + h * dim;
      double highest = -1e300;
      for (int32_t p = 0; p <= token; ++p) {
        const float* k = k_[request].data() + kv_index(p, h / group);
        double dot = 0.0;
        for (int32_t d = 0; d < dim; ++d) dot += static_cast<double>(q[d]) * k[d];
        weights[p] = dot * static_cast<double>(scale());
        highest = std::max(highest, weights[p]);
      }
      double sum = 0.0;
      for (double& w : weights) sum += w = std::exp(w - highest);
      for (int32_t p = 0; p <= token; ++p) {
        const float* v = v_[request].data() + kv_index(p, h / group);
        for (int32_t d = 0; d < dim; ++d) out[h * dim + d] += weights[p] / sum * v[d];
      }
    }
    return out;
  }

 private:
  float scale() const { return 1.0F / std::sqrt(static_cast<float>(shape_.head_dim)); }
  int32_t pages_of(int32_t length) const {
    return (length + shape_.page_size - 1) / shape_.page_size;
  }
  int64_t kv_index(int32_t position, int32_t kv_head) const {
    return (static_cast<int64_t>(position) * shape_.num_kv_heads + kv_head) * shape_.head_dim;
  }

  void write(std::byte* page, int64_t element, float value) {
    if (shape_.type == WeightType::kF32) {
      reinterpret_cast<float*>(page)[element] = value;
    } else {
      reinterpret_cast<uint16_t*>(page)[element] =
          shape_.type == WeightType::kF16 ? f32_to_f16(value) : f32_to_bf16(value);
    }
  }

  void write_request(int32_t request) {
    const KvLayout layout = shape_.layout();
    for (int32_t p = 0; p < lengths_[request]; ++p) {
      const int32_t id = page_ids_[request][p / shape_.page_size];
      std::byte* page = cache_->data() + id * page_stride_bytes_;
      const int32_t offset = p % shape_.page_size;
      for (int32_t h = 0; h < shape_.num_kv_heads; ++h) {
        for (int32_t d = 0; d < shape_.head_dim; ++d) {
          write(page, layout.key_offset(h, d, offset), k_[request][kv_index(p, h) + d]);
          write(page, layout.value_offset(h, offset, d), v_[request][kv_index(p, h) + d]);
        }
      }
    }
  }

  AttentionShape shape_;
  std::vector<int32_t> lengths_;
  int64_t page_stride_bytes_ = 0;
  std::unique_ptr<Aligned<std::byte>> cache_;
  std::vector<std::vector<int32_t>> page_ids_;
  std::vector<std::vector<float>> q_;  // [request][position, num_heads, head_dim]
  std::vector<std::vector<float>> k_;  // [request][position, num_kv_heads, head_dim]
  std::vector<std::vector<float>> v_;
};

}  // namespace encore::kernels
