// What a manifest may say, and how each mistake in one is reported.
#include "encore/loader/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "encore/loader/cpu_isa.h"

namespace encore {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kHead =
    "manifest: 1\nname: acme.npu\nvendor: Acme Corp.\nversion: 3.2-rc1\nabi: \"1.1\"\n";

std::string with(const std::string& rest) { return kHead + rest; }

LoadFailure failure_of(const std::string& text) {
  LoadFailure failure;
  const Result<Manifest> manifest = parse_manifest(text, "/p/npu.plugin.yaml", &failure);
  EXPECT_FALSE(manifest.ok()) << text;
  if (manifest.ok()) return failure;
  EXPECT_EQ(failure.path, "/p/npu.plugin.yaml");
  EXPECT_EQ(failure.stage(), failure.code == LoadCode::kNameForeign ? LoadStage::kRegistration
                                                                    : LoadStage::kManifest);
  EXPECT_EQ(manifest.status().message(), "manifest /p/npu.plugin.yaml: " + failure.message);
  return failure;
}

std::string malformed(const std::string& text) {
  const LoadFailure failure = failure_of(text);
  EXPECT_EQ(failure.code, LoadCode::kManifestMalformed) << text;
  return failure.message;
}

TEST(ManifestTest, OneLibraryIsOneUnnamedVariant) {
  const auto manifest = parse_manifest(with("library: npu.so\n"), "/p/npu.plugin.yaml");
  ASSERT_TRUE(manifest.ok()) << manifest.status().message();
  EXPECT_EQ(manifest->path, "/p/npu.plugin.yaml");
  EXPECT_EQ(manifest->name, "acme.npu");
  EXPECT_EQ(manifest->vendor, "Acme Corp.");
  EXPECT_EQ(manifest->version, "3.2-rc1");
  EXPECT_EQ(manifest->abi_major, 1U);
  EXPECT_EQ(manifest->abi_minor, 1U);
  ASSERT_EQ(manifest->variants.size(), 1U);
  EXPECT_EQ(manifest->variants[0].name, "");
  EXPECT_EQ(manifest->variants[0].library, "npu.so");
  EXPECT_EQ(manifest->variant_option, "");
  EXPECT_EQ(manifest->conformance, "");
}

TEST(ManifestTest, VariantsKeepTheirOrderAndRequirements) {
  const auto manifest =
      parse_manifest(with("variants:\n"
                          "  - {name: fast, library: lib/fast.so, requires: [avx2, avx512_vnni]}\n"
                          "  - {name: slow, library: slow.so}\n"
                          "variant_option: isa\n"
                          "conformance: \"encore-plugin-check 1.1: 58 passed\"\n"),
                     "/p/npu.plugin.yaml");
  ASSERT_TRUE(manifest.ok()) << manifest.status().message();
  ASSERT_EQ(manifest->variants.size(), 2U);
  EXPECT_EQ(manifest->variants[0].name, "fast");
  EXPECT_EQ(manifest->variants[0].library, "lib/fast.so");
  EXPECT_THAT(manifest->variants[0].requirements, ElementsAre("avx2", "avx512_vnni"));
  EXPECT_TRUE(manifest->variants[1].requirements.empty());
  EXPECT_EQ(manifest->variant_option, "isa");
  EXPECT_EQ(manifest->conformance, "encore-plugin-check 1.1: 58 passed");
}

TEST(ManifestTest, WhatIsNoMapIsRefused) {
  EXPECT_EQ(malformed(""), "a manifest is a map of keys");
  EXPECT_EQ(malformed("- a\n"), "line 1: a manifest is a map of keys");
  EXPECT_EQ(malformed("npu.so"), "line 1: a manifest is a map of keys");
  EXPECT_THAT(malformed("name: [a\n"), HasSubstr("not valid YAML"));
  EXPECT_THAT(malformed(std::string("\x7f"
                                    "ELF\x02\x01\x01\0\0\0",
                                    10)),
              HasSubstr("manifest"));
}

TEST(ManifestTest, UnknownKeyNamesLineAndNearestKey) {
  EXPECT_EQ(malformed(with("libary: npu.so\n")),
            "line 6: unknown key \"libary\" in a manifest; did you mean \"library\"?");
  EXPECT_THAT(malformed(with("wheels: 4\nlibrary: npu.so\n")),
              HasSubstr("unknown key \"wheels\" in a manifest; known: manifest, name, vendor"));
  EXPECT_EQ(malformed(with("variants: [{name: a, library: a.so, require: [avx2]}]\n")),
            "line 6: unknown key \"require\" in a variant; did you mean \"requires\"?");
}

TEST(ManifestTest, MissingKeyIsNamed) {
  EXPECT_EQ(malformed("name: acme.npu\n"), "line 1: the key \"manifest\" is missing");
  EXPECT_EQ(malformed("manifest: 1\n"), "line 1: the key \"name\" is missing");
  EXPECT_THAT(malformed("manifest: 1\nname: acme.npu\n"), HasSubstr("\"vendor\" is missing"));
  EXPECT_THAT(malformed("manifest: 1\nname: acme.npu\nvendor: A\n"),
              HasSubstr("\"version\" is missing"));
  EXPECT_THAT(malformed("manifest: 1\nname: acme.npu\nvendor: A\nversion: 1\n"),
              HasSubstr("\"abi\" is missing"));
  EXPECT_THAT(malformed(kHead), HasSubstr("it names no library; give \"library\" or \"variants\""));
  EXPECT_THAT(malformed(with("variants: [{library: a.so}]\n")), HasSubstr("\"name\" is missing"));
  EXPECT_THAT(malformed(with("variants: [{name: a}]\n")), HasSubstr("\"library\" is missing"));
}

TEST(ManifestTest, VersionOfTheFormatIsChecked) {
  EXPECT_EQ(malformed("manifest: 2\nname: acme.npu\nfuture: true\n"),
            "line 1: manifest is \"2\"; this host reads version 1");
  EXPECT_EQ(malformed("manifest: one\n"), "line 1: manifest is \"one\"; this host reads version 1");
}

TEST(ManifestTest, AbiIsTwoNumbers) {
  for (const char* abi : {"1", "1.", ".1", "1.1.1", "a.b", "-1.0", "1.99999", "4294967297.0"}) {
    const std::string text =
        std::string("manifest: 1\nname: acme.npu\nvendor: A\nversion: 1\nlibrary: a.so\nabi: \"") +
        abi + "\"\n";
    EXPECT_EQ(malformed(text), std::string("line 6: abi is \"") + abi +
                                   R"("; it must be "MAJOR.MINOR", for example "1.1")");
  }
}

TEST(ManifestTest, NamesAreWords) {
  for (const char* name : {"Acme.npu", "acme/npu", "../etc", "acme npu", "acme\\n"}) {
    const std::string text = std::string("manifest: 1\nname: ") + name +
                             "\nvendor: A\nversion: 1\nabi: 1.0\nlibrary: a.so\n";
    EXPECT_THAT(malformed(text), HasSubstr("1 to 64 of the characters a-z 0-9 . _ -")) << name;
  }
  EXPECT_THAT(malformed("manifest: 1\nname: a." + std::string(63, 'x') +
                        "\nvendor: A\nversion: 1\nabi: 1.0\nlibrary: a.so\n"),
              HasSubstr("1 to 64 of the characters"));
}

TEST(ManifestTest, BareNamesAreEncoresOwn) {
  const std::string rest = "\nversion: 1\nabi: 1.0\nlibrary: a.so\n";
  const LoadFailure failure = failure_of("manifest: 1\nname: npu\nvendor: Acme" + rest);
  EXPECT_EQ(failure.code, LoadCode::kNameForeign);
  EXPECT_EQ(failure.message,
            "line 2: name is \"npu\" and the vendor \"Acme\"; only Encore's own backends have bare "
            "names, others are named vendor.name");
  EXPECT_TRUE(parse_manifest("manifest: 1\nname: cpu\nvendor: Encore" + rest, "/p").ok());
  EXPECT_EQ(name_problem("cpu", "Encore"), "");
  EXPECT_EQ(name_problem("acme.npu", "Acme"), "");
  EXPECT_EQ(name_problem("acme.npu.v2", "Acme"), "");
  EXPECT_THAT(name_problem("cpu", "Encores Friends"), HasSubstr("only Encore's own"));
  EXPECT_THAT(name_problem("cpu", ""), HasSubstr("only Encore's own"));
  EXPECT_THAT(name_problem("acme.cpu", "Encore"), HasSubstr("has no dot in its name"));
  EXPECT_THAT(name_problem("encore.npu", "Acme"), HasSubstr("may not be encore"));
  EXPECT_THAT(name_problem(".npu", "Acme"), HasSubstr("there must be a word"));
  EXPECT_THAT(name_problem("acme.", "Acme"), HasSubstr("there must be a word"));
}

TEST(ManifestTest, TextIsBoundedAndPrintable) {
  EXPECT_EQ(malformed(with("library: a.so\nconformance: " + std::string(257, 'x') + "\n")),
            "line 7: conformance has 257 bytes; at most 256 are allowed");
  EXPECT_THAT(malformed(with("library: a.so\nconformance: \"\\e[31mred\"\n")),
              HasSubstr("conformance is \"?[31mred\"; control characters"));
  EXPECT_THAT(malformed(with("library: \"a\\0.so\"\n")), HasSubstr("control characters"));
  EXPECT_THAT(malformed(with("library: a.so\nconformance: []\n")),
              HasSubstr("conformance must be a text"));
  EXPECT_THAT(malformed(with("library:\n")), HasSubstr("library must be a text"));
  EXPECT_THAT(malformed(with("library: {a: b}\n")), HasSubstr("library must be a text"));
}

TEST(ManifestTest, SizeDepthAndCountsAreBounded) {
  EXPECT_EQ(malformed(with("library: a.so\n#" + std::string(kMaxManifestBytes, 'x'))),
            "it is larger than 65536 bytes");
  EXPECT_THAT(malformed(std::string(5000, '[')), HasSubstr("nested deeper than 16 levels"));
  std::string variants = "variants:\n";
  for (int i = 0; i < 33; ++i) variants += "  - {name: v" + std::to_string(i) + ", library: a}\n";
  EXPECT_THAT(malformed(with(variants)), HasSubstr("variants must be a list of 1 to 32 maps"));
  std::string features;
  for (int i = 0; i < 65; ++i) features += "avx2, ";
  EXPECT_THAT(malformed(with("variants: [{name: a, library: a, requires: [" + features + "]}]\n")),
              HasSubstr("requires must be a list of at most 64 features"));
  EXPECT_THAT(malformed(with("library: &a a.so\nconformance: *a\n")), HasSubstr("anchors"));
  EXPECT_THAT(malformed(with("library: !!binary YQ==\n")), HasSubstr("is not supported"));
  EXPECT_THAT(malformed(with("library: a.so\n---\nlibrary: b.so\n")), HasSubstr("second document"));
  EXPECT_THAT(malformed(with("library: a.so\nlibrary: b.so\n")), HasSubstr("written twice"));
}

TEST(ManifestTest, VariantsAreChecked) {
  EXPECT_THAT(malformed(with("library: a.so\nvariants: [{name: a, library: a.so}]\n")),
              HasSubstr("it has both \"library\" and \"variants\""));
  EXPECT_THAT(malformed(with("variants: []\n")), HasSubstr("a list of 1 to 32 maps"));
  EXPECT_THAT(malformed(with("variants: fast\n")), HasSubstr("a list of 1 to 32 maps"));
  EXPECT_THAT(malformed(with("variants: [fast.so]\n")), HasSubstr("a variant is a map"));
  EXPECT_THAT(malformed(with("variants: [{name: auto, library: a}]\n")), HasSubstr("not \"auto\""));
  EXPECT_THAT(malformed(with("variants: [{name: a, library: a}, {name: a, library: b}]\n")),
              HasSubstr("named \"a\"; names are"));
  EXPECT_THAT(malformed(with("variants: [{name: a, library: a, requires: avx2}]\n")),
              HasSubstr("requires must be a list"));
  EXPECT_THAT(malformed(with("variants: [{name: a, library: a, requires: [\"AVX 2\"]}]\n")),
              HasSubstr("requires holds \"AVX 2\""));
  EXPECT_THAT(malformed(with("library: a.so\nvariant_option: isa\n")),
              HasSubstr("variant_option needs \"variants\""));
}

TEST(ManifestTest, LibraryOutsideTheFolderIsRefused) {
  for (const char* library : {"/usr/lib/a.so", "../a.so", "lib/../../a.so", "..", "lib/.."}) {
    const LoadFailure failure = failure_of(with(std::string("library: ") + library + "\n"));
    EXPECT_EQ(failure.code, LoadCode::kManifestOutside) << library;
    EXPECT_EQ(failure.message, std::string("line 6: library is \"") + library +
                                   "\"; it must be a file name, or a path below the manifest's "
                                   "folder");
  }
  EXPECT_THAT(malformed(with("library: lib/\n")), HasSubstr("it must name a file"));
  EXPECT_THAT(malformed(with("library: .\n")), HasSubstr("it must name a file"));
  const LoadFailure variant =
      failure_of(with("variants: [{name: a, library: a.so}, {name: b, library: /b.so}]\n"));
  EXPECT_EQ(variant.code, LoadCode::kManifestOutside);
}

// A typing error in a requirement would make a variant one that no processor can run.
TEST(ManifestTest, TheCpuBackendsManifestRequiresKnownFeatures) {
  const auto manifest = read_manifest(ENCORE_TEST_INSTALLED_DIR "/cpu.plugin.yaml");
  ASSERT_TRUE(manifest.ok()) << manifest.status().message();
  EXPECT_EQ(manifest->name, "cpu");
  EXPECT_EQ(manifest->vendor, "Encore");
  EXPECT_EQ(manifest->variant_option, "isa");
  ASSERT_EQ(manifest->variants.size(), 4U);
  EXPECT_EQ(manifest->variants[0].name, "amx");
  EXPECT_EQ(manifest->variants[3].name, "generic");
  EXPECT_TRUE(manifest->variants[3].requirements.empty());
  for (const ManifestVariant& variant : manifest->variants) {
    for (const std::string& name : variant.requirements) {
      EXPECT_NE(cpu_isa().find(name), nullptr) << variant.name << " requires " << name;
    }
  }
}

class ManifestFileTest : public testing::Test {
 public:
  ~ManifestFileTest() override { fs::remove_all(folder_); }

 protected:
  ManifestFileTest() {
    std::string pattern = testing::TempDir() + "/encore-manifest-XXXXXX";
    folder_ = fs::canonical(::mkdtemp(pattern.data())).string();
    fs::create_directories(folder_ + "/plugins/lib");
    std::ofstream(folder_ + "/outside.so") << "x";
    std::ofstream(folder_ + "/plugins/lib/inside.so") << "x";
  }

  std::string write(const std::string& text) const {
    std::string path = folder_ + "/plugins/npu.plugin.yaml";
    std::ofstream(path) << text;
    return path;
  }

  Result<std::string> library(const std::string& name, LoadFailure* failure = nullptr) const {
    const auto manifest = read_manifest(write(with("library: " + name + "\n")));
    EXPECT_TRUE(manifest.ok());
    return manifest_library(*manifest, manifest->variants[0], failure);
  }

  LoadFailure unreadable(const std::string& path) const {
    LoadFailure failure;
    EXPECT_FALSE(read_manifest(path, &failure).ok()) << path;
    EXPECT_EQ(failure.code, LoadCode::kManifestUnreadable) << path;
    return failure;
  }

  std::string folder_;
};

TEST_F(ManifestFileTest, LibraryIsBelowTheManifestsFolder) {
  EXPECT_EQ(*library("lib/inside.so"), folder_ + "/plugins/lib/inside.so");
  fs::create_symlink("lib/inside.so", folder_ + "/plugins/link.so");
  EXPECT_EQ(*library("link.so"), folder_ + "/plugins/link.so");
}

TEST_F(ManifestFileTest, LibraryThatIsNotThereIsLeftToLoading) {
  EXPECT_EQ(*library("nowhere.so"), folder_ + "/plugins/nowhere.so");
}

TEST_F(ManifestFileTest, LinkOutOfTheFolderIsRefused) {
  fs::create_symlink("../outside.so", folder_ + "/plugins/link.so");
  LoadFailure failure;
  EXPECT_FALSE(library("link.so", &failure).ok());
  EXPECT_EQ(failure.code, LoadCode::kManifestOutside);
  EXPECT_EQ(failure.message, "library \"link.so\" leads to " + folder_ +
                                 "/outside.so, outside the manifest's folder");
  fs::create_directory_symlink("..", folder_ + "/plugins/up");
  EXPECT_FALSE(library("up/outside.so", &failure).ok());
  EXPECT_EQ(failure.code, LoadCode::kManifestOutside);
}

TEST_F(ManifestFileTest, FolderWhoseNameBeginsAlikeIsOutside) {
  fs::create_directories(folder_ + "/plugins-evil");
  std::ofstream(folder_ + "/plugins-evil/a.so") << "x";
  fs::create_symlink("../plugins-evil/a.so", folder_ + "/plugins/link.so");
  LoadFailure failure;
  EXPECT_FALSE(library("link.so", &failure).ok());
  EXPECT_EQ(failure.code, LoadCode::kManifestOutside);
}

TEST_F(ManifestFileTest, LinkToAManifestStandsForTheFile) {
  write(with("library: lib/inside.so\n"));
  fs::create_symlink("plugins/npu.plugin.yaml", folder_ + "/npu.plugin.yaml");
  const auto manifest = read_manifest(folder_ + "/npu.plugin.yaml");
  ASSERT_TRUE(manifest.ok());
  EXPECT_EQ(*manifest_library(*manifest, manifest->variants[0]),
            folder_ + "/plugins/lib/inside.so");
}

TEST_F(ManifestFileTest, WhatIsNoReadableFileIsSaid) {
  EXPECT_EQ(unreadable(folder_ + "/none.plugin.yaml").message, "No such file or directory");
  EXPECT_EQ(unreadable(folder_ + "/plugins").message, "Is a directory");
  EXPECT_EQ(unreadable("/dev/null").message, "it is not a regular file");
  const std::string fifo = folder_ + "/fifo.plugin.yaml";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(unreadable(fifo).message, "it is not a regular file");
  const std::string loop = folder_ + "/loop.plugin.yaml";
  fs::create_symlink(loop, loop);
  EXPECT_EQ(unreadable(loop).message, "Too many levels of symbolic links");
}

TEST_F(ManifestFileTest, HugeFileIsNotReadWhole) {
  const std::string path = write("");
  fs::resize_file(path, uint64_t{1} << 40);
  LoadFailure failure;
  EXPECT_FALSE(read_manifest(path, &failure).ok());
  EXPECT_EQ(failure.message, "it is larger than 65536 bytes");
}

}  // namespace
}  // namespace encore
