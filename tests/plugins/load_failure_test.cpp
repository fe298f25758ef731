// Everything that can be wrong with a plugin's file, table and claims.
#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "dependencies.h"
#include "elf_file.h"
#include "encore/loader/plugin_loader.h"
#include "plugin_test_util.h"

namespace encore {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct Outcome {
  Status status;
  LoadFailure failure;
};

Outcome load(const std::string& path) {
  Outcome outcome;
  const Result<LoadedPlugin> plugin = load_plugin(path, test_host(), &outcome.failure);
  if (!plugin.ok()) outcome.status = plugin.status();
  return outcome;
}

// A folder that goes away with the test.
class LoadFailureTest : public testing::Test {
 public:
  ~LoadFailureTest() override { std::filesystem::remove_all(folder_); }

 protected:
  LoadFailureTest() {
    std::string pattern = testing::TempDir() + "/encore-loader-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }

  std::string write(const std::string& name, const std::string& bytes) {
    std::string path = folder_ + "/" + name;
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }

  static std::string fake_bytes() {
    std::ifstream stream(test_plugin("fake"), std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  }

  std::string folder_;
};

TEST_F(LoadFailureTest, MissingFileIsNamed) {
  const Outcome outcome = load("/no/such/plugin.so");
  EXPECT_EQ(outcome.status.code(), StatusCode::kNotFound);
  EXPECT_EQ(outcome.status.message(), "plugin /no/such/plugin.so: path: No such file or directory");
  EXPECT_EQ(outcome.failure.stage(), LoadStage::kPath);
  EXPECT_EQ(outcome.failure.path, "/no/such/plugin.so");
  EXPECT_EQ(outcome.failure.message, "No such file or directory");
}

TEST_F(LoadFailureTest, RelativePathIsRefused) {
  EXPECT_THAT(load("encore_backend_fake.so").status.message(), HasSubstr("the path is relative"));
  EXPECT_EQ(load("").failure.stage(), LoadStage::kPath);
}

TEST_F(LoadFailureTest, FolderIsRefused) {
  EXPECT_THAT(load(folder_).status.message(), HasSubstr("not a regular file"));
}

TEST_F(LoadFailureTest, TextFileAndEmptyFileAreNotElf) {
  const Outcome text = load(write("text.so", std::string(500, 'a')));
  EXPECT_EQ(text.failure.stage(), LoadStage::kElf);
  EXPECT_EQ(text.status.code(), StatusCode::kDataLoss);
  EXPECT_THAT(text.status.message(), HasSubstr("ELF magic"));
  EXPECT_THAT(load(write("empty.so", "")).failure.message, HasSubstr("empty"));
  EXPECT_THAT(load(write("short.so",
                         "\x7f"
                         "ELF"))
                  .failure.message,
              HasSubstr("4 bytes"));
}

TEST_F(LoadFailureTest, TruncationAnywhereIsAnErrorAndNotASignal) {
  const std::string whole = fake_bytes();
  std::vector<size_t> cuts = {1, 63, 64, 65, 120, 1000, whole.size() - 1};
  for (size_t cut = 4096; cut < whole.size(); cut += 4096) cuts.push_back(cut);
  for (const size_t cut : cuts) {
    const Outcome outcome = load(write("cut.so", whole.substr(0, cut)));
    EXPECT_EQ(outcome.failure.stage(), LoadStage::kElf) << cut;
    EXPECT_EQ(outcome.status.code(), StatusCode::kDataLoss) << cut;
  }
}

TEST_F(LoadFailureTest, OtherMachineClassAndTypeAreNamed) {
  std::string bytes = fake_bytes();
  bytes[offsetof(Elf64_Ehdr, e_machine)] = '\xF3';  // RISC-V
  EXPECT_THAT(load(write("machine.so", bytes)).failure.message, HasSubstr("ELF machine 243"));
  bytes = fake_bytes();
  bytes[EI_CLASS] = ELFCLASS32;
  EXPECT_THAT(load(write("class.so", bytes)).failure.message, HasSubstr("64-bit"));
  bytes = fake_bytes();
  bytes[offsetof(Elf64_Ehdr, e_type)] = ET_REL;
  EXPECT_THAT(load(write("type.so", bytes)).failure.message, HasSubstr("ELF type is 1"));
}

TEST_F(LoadFailureTest, DamagedHeadersNeverCrashTheReader) {
  const std::string whole = fake_bytes();
  const std::string path = write("damaged.so", whole);
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  std::mt19937 random(1);
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    std::vector<size_t> places;
    places.reserve(4);
    for (int flips = 0; flips < 4; ++flips) places.push_back(random() % 1024);
    for (const size_t place : places) {
      file.seekp(static_cast<std::streamoff>(place)).put(static_cast<char>(random()));
    }
    file.flush();
    if (!read_elf(path).ok()) ++refused;
    for (const size_t place : places) {
      file.seekp(static_cast<std::streamoff>(place)).put(whole[place]);
    }
  }
  EXPECT_GT(refused, 100);
}

TEST_F(LoadFailureTest, AllMissingLibrariesAreListed) {
  const Outcome outcome = load(test_plugin("needy"));
  EXPECT_EQ(outcome.failure.stage(), LoadStage::kDependencies);
  EXPECT_EQ(outcome.status.code(), StatusCode::kNotFound);
  EXPECT_THAT(outcome.failure.message,
              AllOf(HasSubstr("libencore_test_first.so"), HasSubstr("libencore_test_second.so"),
                    HasSubstr("LD_LIBRARY_PATH")));
}

TEST_F(LoadFailureTest, LibraryBesideThePluginIsFound) {
  std::filesystem::copy(test_plugin("needy"), folder_ + "/needy.so");
  std::filesystem::copy(ENCORE_TEST_HIDDEN_DIR "/libencore_test_first.so", folder_);
  const Outcome outcome = load(folder_ + "/needy.so");
  EXPECT_EQ(outcome.failure.stage(), LoadStage::kDependencies);
  EXPECT_THAT(outcome.failure.message, HasSubstr("libencore_test_second.so"));
  EXPECT_THAT(outcome.failure.message, testing::Not(HasSubstr("libencore_test_first.so")));
  std::filesystem::copy(ENCORE_TEST_HIDDEN_DIR "/libencore_test_second.so", folder_);
  const auto missing = missing_dependencies(folder_ + "/needy.so");
  ASSERT_TRUE(missing.ok());
  EXPECT_THAT(*missing, testing::IsEmpty());
}

TEST_F(LoadFailureTest, MissingLibraryOfALibraryIsListedWithWhoNeedsIt) {
  const std::string folder = ENCORE_TEST_PLUGIN_DIR;
  EXPECT_THAT(
      load(folder + "/libencore_test_outer.so").failure.message,
      HasSubstr("libencore_test_second.so (needed by " + folder + "/libencore_test_chain.so)"));
}

TEST_F(LoadFailureTest, UndefinedSymbolIsNamedInTheLinkersWords) {
  const Outcome outcome = load(test_plugin("undefined"));
  EXPECT_EQ(outcome.failure.stage(), LoadStage::kLoad);
  EXPECT_EQ(outcome.status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(outcome.failure.message, HasSubstr("undefined symbol: encore_test_nowhere_defined"));
}

TEST_F(LoadFailureTest, LibraryWithoutEntryIsOneClearLine) {
  const Outcome outcome = load(test_plugin("no_entry"));
  EXPECT_EQ(outcome.failure.stage(), LoadStage::kNegotiation);
  EXPECT_EQ(outcome.failure.message,
            "it exports no encore_backend_entry; it is a shared library, but not an Encore plugin");
}

TEST_F(LoadFailureTest, ExceptionInTheBackendsConstructorIsAnError) {
  const Outcome outcome = load(test_plugin("throwing"));
  EXPECT_EQ(outcome.failure.stage(), LoadStage::kNegotiation);
  EXPECT_EQ(outcome.status.code(), StatusCode::kInternal);
  EXPECT_THAT(outcome.failure.message, HasSubstr("driver 470 is too old; 535 is needed"));
}

// The C plugin, told what to lie about.
class LyingPluginTest : public testing::Test {
 public:
  ~LyingPluginTest() override { ::unsetenv("ENCORE_TEST_LIE"); }

 protected:
  static void lie(const char* about) { ::setenv("ENCORE_TEST_LIE", about, 1); }

  static std::string load_lying(const char* about) {
    lie(about);
    return load(test_plugin("c")).failure.message;
  }

  // Loads honestly; lies begin after.
  void start() {
    ::unsetenv("ENCORE_TEST_LIE");
    Result<LoadedPlugin> plugin = load_plugin(test_plugin("c"), test_host());
    ASSERT_TRUE(plugin.ok()) << plugin.status().to_string();
    backend_ = std::move(plugin->backend);
    ASSERT_TRUE(backend_->init({}).ok());
  }

  void start_model() {
    ASSERT_NO_FATAL_FAILURE(start());
    auto model = backend_->load_model(0, small_spec(), weights_, {});
    ASSERT_TRUE(model.ok()) << model.status().to_string();
    model_ = std::move(model).value();
    auto kv = model_->create_kv({.num_pages = 8, .page_size = 4});
    ASSERT_TRUE(kv.ok()) << kv.status().to_string();
    kv_ = std::move(kv).value();
  }

  std::string capture_lying(const char* about) {
    lie(about);
    const auto capture = model_->create_eager(*kv_, small_capture());
    return capture.ok() ? "accepted" : capture.status().message();
  }

  std::unique_ptr<Backend> backend_;
  MemoryWeights weights_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<KvCache> kv_;
};

TEST_F(LyingPluginTest, HonestOneInPlainCIsAccepted) {
  ASSERT_NO_FATAL_FAILURE(start_model());
  EXPECT_EQ(backend_->identity().name, "c");
  EXPECT_EQ(backend_->option_schema().at(0).key, "speed");
  EXPECT_TRUE(backend_->probe().usable);
  EXPECT_EQ(backend_->probe().reason, "café\xEF\xBF\xBD");
  EXPECT_EQ(model_->create_eager(*kv_, small_capture())->report.static_bytes, 20);
  EXPECT_TRUE(backend_->stats().empty());
  EXPECT_EQ(backend_->selftest(0).code(), StatusCode::kUnimplemented);
  EXPECT_EQ(backend_->measure_limits(0).status().code(), StatusCode::kUnimplemented);
  EXPECT_EQ(model_->check_guards().code(), StatusCode::kUnimplemented);
  EXPECT_EQ(model_->set_layer_observer([](const LayerOutput&) {}).code(),
            StatusCode::kUnimplemented);
  EXPECT_TRUE(model_->set_layer_observer({}).ok());
}

TEST_F(LyingPluginTest, TableIsRefused) {
  EXPECT_THAT(load_lying("entry_fails"), HasSubstr("no driver"));
  EXPECT_THAT(load_lying("entry_null"), HasSubstr("no message was given"));
  EXPECT_THAT(load_lying("magic"), HasSubstr("magic number"));
  EXPECT_THAT(load_lying("major"), HasSubstr("speaks backend ABI 7.2, this host 1.1"));
  EXPECT_THAT(load_lying("size_zero"), HasSubstr("states a size of 0 bytes"));
  EXPECT_THAT(load_lying("size_small"), HasSubstr("states a size of 200 bytes"));
  EXPECT_THAT(load_lying("size_huge"), HasSubstr("states a size of 1099511627776 bytes"));
  EXPECT_THAT(load_lying("function_null"),
              HasSubstr("lacks required functions: kv_read, runner_wait"));
  EXPECT_THAT(load_lying("name_empty"), HasSubstr("its name is ''"));
  EXPECT_THAT(load_lying("name_path"), HasSubstr("its name is '../etc'"));
  EXPECT_THAT(load_lying("name_long"), HasSubstr("1 to 64"));
}

TEST_F(LyingPluginTest, SchemaIsRefused) {
  EXPECT_THAT(load_lying("schema_fails"), HasSubstr("no schema today"));
  EXPECT_THAT(load_lying("schema_null"), HasSubstr("options = null"));
  EXPECT_THAT(load_lying("schema_count"), HasSubstr("1152921504606846976; expected at most 256"));
  EXPECT_THAT(load_lying("schema_stride"), HasSubstr("a stride of options = 0"));
  EXPECT_THAT(load_lying("schema_type"), HasSubstr("the type of option 'speed' = 99"));
}

TEST_F(LyingPluginTest, ErrorsAreMadePresentable) {
  ASSERT_NO_FATAL_FAILURE(start());
  lie("code_unknown");
  EXPECT_EQ(backend_->init({}).to_string(), "internal: strange (unknown error code 99)");
  lie("no_message");
  EXPECT_EQ(backend_->init({}).to_string(), "internal: no message was given");
  lie("message_size");
  EXPECT_EQ(backend_->init({}).message().size(), 996U);
  lie("native");
  EXPECT_EQ(backend_->init({}).to_string(),
            "internal: illegal address (native code 700) (the device is lost to this process)");
}

TEST_F(LyingPluginTest, SizesOfTextAreBounded) {
  ASSERT_NO_FATAL_FAILURE(start());
  lie("reason_size");
  EXPECT_LT(backend_->probe().reason.size(), 4000U);
  lie("id_size");
  EXPECT_EQ(backend_->device_info(0)->id.size(), 128U);
}

TEST_F(LyingPluginTest, CountsAndMemoryAreChecked) {
  ASSERT_NO_FATAL_FAILURE(start());
  lie("device_count");
  EXPECT_EQ(backend_->device_count(), 0);
  lie("memory");
  EXPECT_THAT(backend_->device_memory(0).status().message(), HasSubstr("total_bytes = -1"));
  lie("null_model");
  EXPECT_THAT(backend_->load_model(0, small_spec(), weights_, {}).status().message(),
              HasSubstr("without a model"));
}

TEST_F(LyingPluginTest, WeightCallbacksCheckTheIndex) {
  ASSERT_NO_FATAL_FAILURE(start());
  lie("read_outside");
  EXPECT_THAT(backend_->load_model(0, small_spec(), weights_, {}).status().message(),
              HasSubstr("weight index is 2; the model has 2 weights"));
  lie("map_outside");
  EXPECT_TRUE(backend_->load_model(0, small_spec(), weights_, {}).ok());
}

TEST_F(LyingPluginTest, ModelAndKvInfoAreChecked) {
  ASSERT_NO_FATAL_FAILURE(start_model());
  lie("model_info");
  EXPECT_EQ(model_->info().weight_bytes, 0);
  const KvOptions options = {.num_pages = 8, .page_size = 4};
  lie("null_kv");
  EXPECT_THAT(model_->create_kv(options).status().message(), HasSubstr("without a KV cache"));
  lie("kv_pages");
  EXPECT_THAT(model_->create_kv(options).status().message(),
              HasSubstr("num_pages = 1000000; expected the 8 asked for"));
  lie("kv_bytes");
  EXPECT_THAT(model_->create_kv(options).status().message(), HasSubstr("page_bytes = -16"));
}

TEST_F(LyingPluginTest, CaptureReportIsChecked) {
  ASSERT_NO_FATAL_FAILURE(start_model());
  EXPECT_EQ(capture_lying("nothing"), "accepted");
  EXPECT_THAT(capture_lying("report_null"), HasSubstr("a capture report = null"));
  EXPECT_THAT(capture_lying("runner_null"), HasSubstr("without a runner"));
  EXPECT_THAT(capture_lying("buckets_null"), HasSubstr("buckets = null"));
  EXPECT_THAT(capture_lying("buckets_count"), HasSubstr("a number of buckets = 1844674407370955"));
  EXPECT_THAT(capture_lying("buckets_stride"), HasSubstr("a stride of buckets"));
  EXPECT_THAT(capture_lying("bucket"), HasSubstr("a bucket = 0"));
  EXPECT_THAT(capture_lying("bucket_bytes"), HasSubstr("arena_bytes = -1"));
  EXPECT_THAT(capture_lying("report_bytes"), HasSubstr("static_bytes = 9223372036854775807"));
  lie("bucket_reason");
  const BucketReport bucket = model_->create_eager(*kv_, small_capture())->report.buckets.at(0);
  EXPECT_EQ(bucket.reason, Reason::kUnsupported);
  EXPECT_THAT(bucket.message, HasSubstr("unknown reason 12345"));
  lie("report_size");  // a struct of no fields: everything reads as zero
  EXPECT_EQ(model_->create_eager(*kv_, small_capture())->report.static_bytes, 0);
}

TEST_F(LyingPluginTest, VerdictOutOfRangeIsUnsupported) {
  ASSERT_NO_FATAL_FAILURE(start_model());
  const auto capture = model_->create_eager(*kv_, small_capture());
  OneRequest step({1}, 0);
  for (const char* about : {"verdict_reason", "verdict_bucket", "check_fails"}) {
    lie(about);
    const RunnerCheck check = capture->runner->check(step.batch(), step.output());
    EXPECT_EQ(check.reason, Reason::kUnsupported) << about;
    EXPECT_EQ(check.bucket, 0) << about;
  }
}

TEST_F(LyingPluginTest, KvCacheOfAnotherModelIsRefused) {
  ASSERT_NO_FATAL_FAILURE(start_model());
  class StrangerKv : public KvCache {
   public:
    KvInfo info() const override { return {}; }
    Status copy_pages(std::span<const PageCopy> /*copies*/) override { return {}; }
    Status read_page(int32_t /*page*/, std::span<std::byte> /*out*/) const override { return {}; }
  } stranger;
  EXPECT_THAT(model_->create_eager(stranger, small_capture()).status().message(),
              HasSubstr("not created by this model"));
}

TEST_F(LyingPluginTest, NothingRunsBeforeInit) {
  ::unsetenv("ENCORE_TEST_LIE");
  const Result<LoadedPlugin> plugin = load_plugin(test_plugin("c"), test_host());
  ASSERT_TRUE(plugin.ok());
  EXPECT_EQ(plugin->backend->device_count(), 0);
  EXPECT_EQ(plugin->backend->device_info(0).status().code(), StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace encore
