// Hosts and plugins of neighbouring minor versions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>

#include "encore/loader/plugin_loader.h"
#include "encore/sdk/backend_plugin.h"
#include "fake_backend.h"
#include "plugin_test_util.h"

namespace encore {
namespace {

// A plugin of a neighbouring version, loaded through the C ABI.
class OtherPluginTest : public testing::TestWithParam<const char*> {
 protected:
  static bool newer() { return std::string_view(GetParam()) == "newer"; }
};

TEST_P(OtherPluginTest, IsAcceptedAndRuns) {
  Result<LoadedPlugin> plugin = load_plugin(test_plugin(GetParam()), test_host());
  ASSERT_TRUE(plugin.ok()) << plugin.status().to_string();
  Backend& backend = *plugin->backend;
  const std::vector<OptionSchema> schema = backend.option_schema();
  ASSERT_EQ(schema.size(), 6U);
  EXPECT_EQ(schema[3].key, "skip_bucket");
  EXPECT_EQ(schema[3].type, OptionType::kInt);
  EXPECT_EQ(schema[3].maximum, 65536.0);
  ASSERT_TRUE(backend.init({}).ok());
  MemoryWeights weights;
  auto model = backend.load_model(0, small_spec(), weights, {});
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  auto kv = (*model)->create_kv({.num_pages = 8, .page_size = 4});
  ASSERT_TRUE(kv.ok());
  auto capture = (*model)->capture_decode(**kv, small_capture());
  ASSERT_TRUE(capture.ok()) << capture.status().to_string();
  ASSERT_EQ(capture->report.buckets.size(), 3U);
  EXPECT_EQ(capture->report.buckets[0].bucket, 4);
  EXPECT_EQ(capture->report.buckets[2].bucket, 1);
  EXPECT_EQ(capture->report.buckets[2].arena_bytes, 1);
  // The older version ends before these; the newer one has them, and poison after.
  EXPECT_EQ(capture->report.buckets[2].num_nodes, newer() ? 3 : 0);
  EXPECT_EQ(capture->report.total_us, newer() ? 4711 : 0);
  OneRequest step({7}, 0);
  const Result<Ticket> ticket = capture->runner->submit(step.batch(), step.output());
  ASSERT_TRUE(ticket.ok()) << ticket.status().to_string();
  ASSERT_TRUE(capture->runner->wait(*ticket, -1).ok());
  EXPECT_EQ(step.logits[3], fake_logit(fake_hash(0, 7), 3));
  // Functions that the older table does not have yet are simply not offered.
  EXPECT_EQ(backend.stats().empty(), !newer());
  EXPECT_EQ(backend.selftest(0).ok(), newer());
  EXPECT_EQ(backend.measure_limits(0).ok(), newer());
}

INSTANTIATE_TEST_SUITE_P(Versions, OtherPluginTest, testing::Values("newer", "older"),
                         [](const auto& version) { return std::string(version.param); });

// A struct with a tail that only a newer host knows, filled with poison.
template <typename T>
struct Longer {
  T known{};
  unsigned char tail[40];

  explicit Longer(const T& value) : known(value) {
    known.struct_size = sizeof(*this);
    std::memset(tail, 0xA5, sizeof(tail));
  }
  bool tail_untouched() const {
    for (const unsigned char byte : tail) {
      if (byte != 0xA5) return false;
    }
    return true;
  }
};

// Array elements with another stride.
template <typename T>
std::vector<unsigned char> restride(const std::vector<T>& elements, size_t stride) {
  std::vector<unsigned char> bytes(elements.size() * stride, 0xA5);
  for (size_t i = 0; i < elements.size(); ++i) {
    std::memcpy(bytes.data() + i * stride, &elements[i], std::min(stride, sizeof(T)));
  }
  return bytes;
}

// The adapter in this program, called as a host of another version would.
class OtherHostTest : public testing::Test {
 protected:
  void SetUp() override {
    sdk::prepare_error(&error_);
    table_ = sdk::entry<FakeBackend>(&host_, &error_);
    ASSERT_NE(table_, nullptr);
    table_->shutdown(table_->backend);
    ASSERT_EQ(table_->init(table_->backend, nullptr, 0, 0, &error_), ENCORE_OK);
  }

  // A model of vocabulary 64, its KV cache and eager runner.
  void load() {
    auto spec = sdk::sized<encore_model_spec>();
    spec.vocab_size = 64;
    const auto weights = sdk::sized<encore_weight_source>();
    const auto load_options = sdk::sized<encore_load_options>();
    ASSERT_EQ(
        table_->model_load(table_->backend, 0, &spec, &weights, &load_options, &model_, &error_),
        ENCORE_OK);
    auto kv_options = sdk::sized<encore_kv_options>();
    kv_options.num_pages = 8;
    kv_options.page_size = 4;
    ASSERT_EQ(table_->kv_create(model_, &kv_options, &kv_, &error_), ENCORE_OK);
    const auto capture_options = sdk::sized<encore_capture_options>();
    const encore_capture_report* report = nullptr;
    ASSERT_EQ(table_->eager_create(model_, kv_, &capture_options, &runner_, &report, &error_),
              ENCORE_OK);
  }

  void TearDown() override {
    if (runner_ != nullptr) table_->runner_free(runner_);
    if (kv_ != nullptr) table_->kv_free(kv_);
    if (model_ != nullptr) table_->model_free(model_);
  }

  encore_host_info host_ = sdk::sized<encore_host_info>();
  encore_error error_;
  const encore_backend_table* table_ = nullptr;
  encore_model* model_ = nullptr;
  encore_kv* kv_ = nullptr;
  encore_runner* runner_ = nullptr;
};

TEST_F(OtherHostTest, NewerHostsOutputsAreWrittenUpToWhatIsKnown) {
  Longer<encore_device_info> info(sdk::sized<encore_device_info>());
  ASSERT_EQ(table_->device_info(table_->backend, 1, &info.known, &error_), ENCORE_OK);
  EXPECT_EQ(std::string(info.known.id, info.known.id_size), "fake:1");
  EXPECT_EQ(info.known.struct_size, sizeof(info));
  EXPECT_TRUE(info.tail_untouched());
}

TEST_F(OtherHostTest, OlderHostsOutputsAreNotOverrun) {
  encore_device_memory memory = {.struct_size = offsetof(encore_device_memory, free_bytes),
                                 .total_bytes = 0,
                                 .free_bytes = -77};
  ASSERT_EQ(table_->device_memory(table_->backend, 0, &memory, &error_), ENCORE_OK);
  EXPECT_EQ(memory.total_bytes, 1000000);
  EXPECT_EQ(memory.free_bytes, -77);
}

TEST_F(OtherHostTest, ErrorStructsOfAnySizeAreRespected) {
  encore_device_memory memory = sdk::sized<encore_device_memory>();
  encore_error error;
  std::memset(&error, 0x5A, sizeof(error));
  error.struct_size = offsetof(encore_error, message) + 10;
  EXPECT_EQ(table_->device_memory(table_->backend, 5, &memory, &error), ENCORE_NOT_FOUND);
  EXPECT_EQ(std::string(error.message, error.message_size), "device 5 d");
  EXPECT_EQ(error.message[10], 0x5A);
  std::memset(&error, 0x5A, sizeof(error));
  error.struct_size = 8;  // no field at all
  EXPECT_EQ(table_->device_memory(table_->backend, 5, &memory, &error), ENCORE_NOT_FOUND);
  EXPECT_EQ(error.code, 0x5A5A5A5A);
}

TEST_F(OtherHostTest, StepsWithOtherStridesAreRead) {
  ASSERT_NO_FATAL_FAILURE(load());
  const std::vector<int32_t> tokens = {5}, positions = {0}, starts = {0, 1}, one = {1}, rows = {0},
                             pages = {2};
  std::vector<RowSampling> sampling(1);
  sampling[0].num_logprobs = 0;
  const std::vector<TokenBias> biases = {{63, 100.0F}};
  for (const size_t extra : {0, 16}) {
    const std::vector<unsigned char> sampling_bytes =
        restride(sampling, sizeof(RowSampling) + extra);
    const std::vector<unsigned char> bias_bytes = restride(biases, sizeof(TokenBias) + extra);
    auto batch = sdk::sized<encore_forward_batch>();
    batch.token_ids = tokens.data();
    batch.positions = positions.data();
    batch.q_start = batch.page_start = batch.bias_start = starts.data();
    batch.kv_len = one.data();
    batch.page_ids = pages.data();
    batch.logit_rows = rows.data();
    batch.token_ids_count = batch.positions_count = batch.kv_len_count = batch.page_ids_count =
        batch.logit_rows_count = batch.sampling_count = batch.biases_count = 1;
    batch.q_start_count = batch.page_start_count = batch.bias_start_count = 2;
    batch.sampling = reinterpret_cast<const encore_row_sampling*>(sampling_bytes.data());
    batch.sampling_stride = sizeof(RowSampling) + extra;
    batch.biases = reinterpret_cast<const encore_token_bias*>(bias_bytes.data());
    batch.biases_stride = sizeof(TokenBias) + extra;
    batch.num_valid_tokens = 64;
    int32_t token = -1;
    int32_t status = -1;
    float logprob = 1.0F;
    auto output = sdk::sized<encore_step_output>();
    output.tokens = &token;
    output.row_status = &status;
    output.logprobs = &logprob;
    output.tokens_count = output.row_status_count = output.logprobs_count = 1;
    const Longer<encore_forward_batch> longer(batch);
    uint64_t ticket = 0;
    ASSERT_EQ(table_->runner_submit(runner_, &longer.known, &output, &ticket, &error_), ENCORE_OK);
    ASSERT_EQ(table_->runner_wait(runner_, ticket, -1, &error_), ENCORE_OK);
    EXPECT_EQ(token, 63) << "the bias was not read with " << extra << " extra bytes";
    EXPECT_LT(logprob, 0.0F) << "num_logprobs was not read with " << extra << " extra bytes";
  }
}

TEST_F(OtherHostTest, SecondInitIsRefusedUntilShutdown) {
  EXPECT_EQ(table_->init(table_->backend, nullptr, 0, 0, &error_), ENCORE_FAILED_PRECONDITION);
  table_->shutdown(table_->backend);
  EXPECT_EQ(table_->init(table_->backend, nullptr, 0, 0, &error_), ENCORE_OK);
}

TEST_F(OtherHostTest, UnknownExtensionIsNull) {
  EXPECT_EQ(table_->get_extension(table_->backend, "encore.telepathy", 16), nullptr);
  EXPECT_NE(table_->get_extension(table_->backend, "encore.guards", 13), nullptr);
}

}  // namespace
}  // namespace encore
