// Files that are no whole shared library for this machine.
#include <elf.h>

#include <cstddef>
#include <random>
#include <vector>

#include "elf_file.h"
#include "hostile_test_util.h"

namespace encore {
namespace {

class HostileElfTest : public HostileTest {
 protected:
  void load_bytes(const std::string& bytes) { load(write("file.so", bytes)); }

  void expect_refused_now(LoadCode code, const std::string& words) {
    expect_refused(code, StatusCode::kDataLoss, words);
  }

  // The fake plugin with one byte of its ELF header changed.
  std::string changed(size_t offset, int value) {
    std::string bytes = bytes_of(test_plugin("fake"));
    bytes[offset] = static_cast<char>(value);
    return bytes;
  }
};

TEST_F(HostileElfTest, EmptyFileIsRefused) {
  load_bytes("");
  expect_refused_now(LoadCode::kElfEmpty, "it is empty");
}

TEST_F(HostileElfTest, TextOfAnyLengthIsRefused) {
  for (const size_t size : {1U, 3U, 500U}) {
    load_bytes(std::string(size, 'a'));
    expect_refused_now(LoadCode::kElfMagic, "does not start with the ELF magic");
  }
}

TEST_F(HostileElfTest, OtherMachineClassAndTypeAreNamed) {
  load_bytes(changed(offsetof(Elf64_Ehdr, e_machine), 0xF3));
  expect_refused_now(LoadCode::kElfMachine, "it is for ELF machine 243; this host is ");
  load_bytes(changed(EI_CLASS, ELFCLASS32));
  expect_refused_now(LoadCode::kElfClass, "not 64-bit little-endian");
  load_bytes(changed(EI_DATA, ELFDATA2MSB));
  expect_refused_now(LoadCode::kElfClass, "not 64-bit little-endian");
  load_bytes(changed(offsetof(Elf64_Ehdr, e_type), ET_REL));
  expect_refused_now(LoadCode::kElfType, "its ELF type is 1; a shared library has 3");
}

TEST_F(HostileElfTest, ProgramHeaderThatMakesNoSenseIsRefused) {
  load_bytes(changed(offsetof(Elf64_Ehdr, e_phnum), 0));
  expect_refused_now(LoadCode::kElfDamaged, "its program header has 0 entries");
  load_bytes(changed(offsetof(Elf64_Ehdr, e_phentsize), 7));
  expect_refused_now(LoadCode::kElfDamaged, "entries of 7 bytes");
}

TEST_F(HostileElfTest, TruncationAnywhereIsAnErrorAndNotASignal) {
  const std::string whole = bytes_of(test_plugin("fake"));
  std::vector<size_t> cuts = {1, 4, 63, 64, 65, 120, 1000, 4095, 4096, 4097, whole.size() - 1};
  for (size_t i = 1; i <= 20; ++i) cuts.push_back(whole.size() * i / 21);
  ASSERT_GE(cuts.size(), 30U);
  for (const size_t cut : cuts) {
    load_bytes(whole.substr(0, cut));
    EXPECT_EQ(failure_.code, LoadCode::kElfTruncated) << cut << ": " << failure_.message;
    EXPECT_THAT(failure_.message, testing::HasSubstr("it is truncated; copy it again")) << cut;
    EXPECT_EQ(status_.code(), StatusCode::kDataLoss) << cut;
  }
  load_bytes(whole);
  expect_loaded();
}

TEST_F(HostileElfTest, DamagedHeadersNeverCrashTheReader) {
  const std::string whole = bytes_of(test_plugin("fake"));
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
    LoadCode code = LoadCode::kNone;
    if (!read_elf(path, &code).ok()) {
      ++refused;
      EXPECT_EQ(load_stage_of(code), LoadStage::kElf);
    }
    for (const size_t place : places) {
      file.seekp(static_cast<std::streamoff>(place)).put(whole[place]);
    }
  }
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace encore
