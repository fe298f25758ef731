// Decode: requests of one token each, on every path.
#include <gtest/gtest.h>

#include "attention_test_support.h"

namespace encore::gpu::testing {
namespace {

std::vector<RequestLengths> decodes(const std::vector<int32_t>& kv_lens) {
  std::vector<RequestLengths> requests;
  requests.reserve(kv_lens.size());
  for (const int32_t kv_len : kv_lens) requests.push_back({1, kv_len});
  return requests;
}

struct ShapeCase {
  AttentionPath path;
  AttentionShape shape;
};
void PrintTo(const ShapeCase& which, std::ostream* out) {
  *out << "path " << static_cast<int>(which.path) << ", " << which.shape.num_heads << " heads, "
       << which.shape.kv.num_kv_heads << " KV heads, head_dim " << which.shape.kv.head_dim
       << ", page " << which.shape.kv.page_size << ", element "
       << static_cast<int>(which.shape.element) << ", cache "
       << static_cast<int>(which.shape.kv.element);
}

std::vector<ShapeCase> tensor_shapes() {
  std::vector<ShapeCase> cases;
  for (const AttentionPath path : {AttentionPath::kTensor, AttentionPath::kHopper,
                                   AttentionPath::kMfma, AttentionPath::kWmma}) {
    for (const int head_dim : {64, 96, 128}) {
      for (const Element element : {Element::kBF16, Element::kF16})
        cases.push_back({path, make_shape(8, 2, head_dim, 16, element)});
    }
    for (const int page_size : {32, 64}) cases.push_back({path, make_shape(8, 2, 128, page_size)});
    for (const int group : {1, 2, 7, 8, 9, 16})
      cases.push_back({path, make_shape(2 * group, 2, 64, 16)});
  }
  return cases;
}

std::vector<ShapeCase> plain_shapes() {
  std::vector<ShapeCase> cases;
  for (const int head_dim : {8, 24, 80, 128, 256})
    cases.push_back({AttentionPath::kPlain, make_shape(6, 2, head_dim, 16)});
  for (const Element cache : {Element::kF32, Element::kF16, Element::kBF16}) {
    for (const Element element : {Element::kF32, Element::kF16, Element::kBF16}) {
      AttentionShape shape = make_shape(4, 1, 40, 32, cache);
      shape.element = element;
      cases.push_back({AttentionPath::kPlain, shape});
    }
  }
  cases.push_back({AttentionPath::kPlain, make_shape(3, 3, 64, 64)});
  return cases;
}

class DecodeShapeTest : public GpuTest, public ::testing::WithParamInterface<ShapeCase> {};

// Lengths around a tile, a page, a warp's and a block's turn; cut into pieces and not.
TEST_P(DecodeShapeTest, MatchesReference) {
  AttentionCase which;
  which.shape = GetParam().shape;
  which.path = GetParam().path;
  which.requests = decodes({1, 2, 15, 16, 17, 63, 64, 65, 100, 700});
  which.decode_only = true;
  check_case(which, launch_);
  if (!kOnCpu || which.path != AttentionPath::kPlain || HasFatalFailure()) return;
  which.lanes = 64;
  check_case(which, launch_);
}

INSTANTIATE_TEST_SUITE_P(Tensor, DecodeShapeTest, ::testing::ValuesIn(thinned(tensor_shapes())));
INSTANTIATE_TEST_SUITE_P(Plain, DecodeShapeTest, ::testing::ValuesIn(thinned(plain_shapes())));

class DecodeTest : public GpuTest, public ::testing::WithParamInterface<AttentionPath> {
 protected:
  AttentionCase make(const std::vector<int32_t>& kv_lens, AttentionShape shape) const {
    AttentionCase which;
    which.shape = shape;
    which.path = GetParam();
    which.requests = decodes(kv_lens);
    which.decode_only = true;
    return which;
  }
};

// Every batch size makes its own clusters; contexts long enough for several pieces.
TEST_P(DecodeTest, SmallBatchesWithLongContexts) {
  for (const int batch : thinned<int>({1, 2, 3, 4, 8, 16, 33})) {
    std::vector<int32_t> kv_lens;
    kv_lens.reserve(static_cast<size_t>(batch));
    for (int i = 0; i < batch; ++i) kv_lens.push_back(1 + (i * 977 + 5003) % 5100);
    SCOPED_TRACE(batch);
    check_case(make(kv_lens, make_shape(4, 2, 64, 16)), launch_);
    if (HasFatalFailure() || IsSkipped()) return;
  }
}

TEST_P(DecodeTest, OneRequestOfEveryShortLength) {
  std::vector<int32_t> lengths(70);
  std::iota(lengths.begin(), lengths.end(), 1);
  for (const int32_t kv_len : thinned(lengths)) {
    SCOPED_TRACE(kv_len);
    check_case(make({kv_len}, make_shape(2, 1, 64, 16)), launch_);
    if (HasFatalFailure() || IsSkipped()) return;
  }
}

// More pages than a warp looks up at once, and again.
TEST_P(DecodeTest, LongContext) {
  AttentionCase which = make({9001}, make_shape(8, 1, 128, 16));
  which.num_processors = 1;  // few, long pieces
  check_case(which, launch_);
}

TEST_P(DecodeTest, FewerLiveThanRecorded) {
  for (const int live : {0, 1, 3, 40}) {
    AttentionCase which = make(std::vector<int32_t>(live, 300), make_shape(4, 1, 64, 16));
    which.max_requests = 64;
    which.max_tokens = 64;
    SCOPED_TRACE(live);
    check_case(which, launch_);
    if (HasFatalFailure() || IsSkipped()) return;
  }
}

TEST_P(DecodeTest, ManyRequests) {
  std::vector<int32_t> kv_lens;
  kv_lens.reserve(1024);
  for (int i = 0; i < 1024; ++i) kv_lens.push_back(1 + i * 37 % 90);
  check_case(make(kv_lens, make_shape(2, 1, 64, 16)), launch_);
}

// A few processors and lengths far apart: pieces, short and long, in many blocks' hands.
TEST_P(DecodeTest, UnevenLengths) {
  for (const int processors : {1, 7, kOnCpu ? 24 : 132}) {
    AttentionCase which = make({4000, 1, 90, 2500, 31, 1, 16, 1700, 5}, make_shape(4, 2, 128, 64));
    which.num_processors = processors;
    SCOPED_TRACE(processors);
    check_case(which, launch_);
    if (HasFatalFailure() || IsSkipped()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Paths, DecodeTest,
                         ::testing::Values(AttentionPath::kPlain, AttentionPath::kTensor,
                                           AttentionPath::kHopper, AttentionPath::kMfma,
                                           AttentionPath::kWmma));

}  // namespace
}  // namespace encore::gpu::testing
