// Prefill, and prefill with decodes, on every path.
#include <gtest/gtest.h>

#include "attention_internal.h"
#include "attention_test_support.h"

namespace encore::gpu::testing {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

struct MixedCase {
  AttentionPath path;
  AttentionShape shape;
};
void PrintTo(const MixedCase& which, std::ostream* out) {
  *out << "path " << static_cast<int>(which.path) << ", " << which.shape.num_heads << " heads, "
       << which.shape.kv.num_kv_heads << " KV heads, head_dim " << which.shape.kv.head_dim
       << ", page " << which.shape.kv.page_size << ", element "
       << static_cast<int>(which.shape.element);
}

std::vector<MixedCase> mixed_cases() {
  std::vector<MixedCase> cases;
  for (const AttentionPath path :
       {AttentionPath::kPlain, AttentionPath::kTensor, AttentionPath::kHopper, AttentionPath::kMfma,
        AttentionPath::kWmma, AttentionPath::kMma}) {
    for (const int head_dim : {64, 96, 128}) {
      for (const int page_size : {16, 64})
        cases.push_back({path, make_shape(4, 2, head_dim, page_size)});
      cases.push_back({path, make_shape(4, 1, head_dim, 32, Element::kF16)});
    }
    for (const int group : {1, 7, 8, 16}) cases.push_back({path, make_shape(group, 1, 128, 16)});
  }
  return cases;
}

class MixedTest : public GpuTest, public ::testing::WithParamInterface<MixedCase> {
 protected:
  // Stale rows hold large numbers, not NaN; that is a claim of its own below.
  AttentionCase make(const std::vector<RequestLengths>& requests, float stale = 1e4F) const {
    AttentionCase which;
    which.shape = GetParam().shape;
    which.path = GetParam().path;
    which.requests = requests;
    which.stale = stale;
    return which;
  }
};

TEST_P(MixedTest, OnePrompt) {
  for (const int length : thinned<int>({65, 3, 16, 63, 2, 64, 127, 128, 129, 200})) {
    SCOPED_TRACE(length);
    check_case(make({{length, length}}), launch_);
    if (HasFatalFailure() || IsSkipped()) return;
  }
}

TEST_P(MixedTest, ChunkWithCachedPrefix) {
  for (const RequestLengths& lengths :
       thinned<RequestLengths>({{70, 333}, {2, 3}, {130, 131}, {64, 128}, {5, 100}, {128, 257}})) {
    SCOPED_TRACE(lengths.kv_len);
    check_case(make({lengths}), launch_);
    if (HasFatalFailure() || IsSkipped()) return;
  }
}

TEST_P(MixedTest, PromptsChunksDecodesAndEmptyRequests) {
  check_case(make({{1, 1},
                   {40, 40},
                   {0, 17},
                   {1, 300},
                   {150, 180},
                   {1, 64},
                   {2, 2},
                   {0, 1},
                   {3, 190},
                   {1, 33}}),
             launch_);
}

TEST_P(MixedTest, DecodesAlone) { check_case(make({{1, 5}, {1, 90}, {1, 16}}), launch_); }

TEST_P(MixedTest, FewerLiveThanRecorded) {
  AttentionCase which = make({{20, 20}, {1, 40}, {66, 70}});
  which.max_requests = 200;
  which.max_tokens = 512;
  check_case(which, launch_);
}

TEST_P(MixedTest, NothingLive) {
  AttentionCase which = make({});
  which.max_requests = 8;
  which.max_tokens = 128;
  check_case(which, launch_);
}

TEST_P(MixedTest, StaleNaNDoesNotSpread) {
  check_case(make({{37, 37}, {1, 21}, {130, 150}, {5, 70}}, kNaN), launch_);
}

// A row of thread blocks has several pieces, in clusters of two where there are any.
TEST_P(MixedTest, MorePiecesThanRowsOfThreadBlocks) {
  AttentionCase which = make({{1, 2000}, {5, 5}, {1, 10}, {1, 2000}});
  const int32_t kv_heads = which.shape.kv.num_kv_heads;
  const int32_t group = which.shape.num_heads / kv_heads;
  which.num_processors = 4 * kv_heads * ((group + kDecodeHeads - 1) / kDecodeHeads);
  check_case(which, launch_);
}

INSTANTIATE_TEST_SUITE_P(Paths, MixedTest, ::testing::ValuesIn(thinned(mixed_cases(), 5)));

class ManyRequestsTest : public GpuTest, public ::testing::WithParamInterface<AttentionPath> {};

TEST_P(ManyRequestsTest, MixedLengths) {
  AttentionCase which;
  which.shape = make_shape(2, 1, 64, 16);
  which.path = GetParam();
  which.stale = 1e4F;
  for (int i = 0; i < (kOnCpu ? 150 : 1024); ++i) {
    const int q_len = i % 3 == 0 ? 1 : i * 7 % 12;
    which.requests.push_back({q_len, std::max(q_len, 1) + i * 11 % 50});
  }
  check_case(which, launch_);
}

INSTANTIATE_TEST_SUITE_P(Paths, ManyRequestsTest,
                         ::testing::Values(AttentionPath::kPlain, AttentionPath::kTensor,
                                           AttentionPath::kHopper, AttentionPath::kMfma,
                                           AttentionPath::kWmma, AttentionPath::kMma));

}  // namespace
}  // namespace encore::gpu::testing
