// What doctor's findings add up to, and how they are shown; versions and instruction sets.
#include "health_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "doctor.h"
#include "driver_versions.h"

namespace encore {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

HealthReport small_report() {
  HealthSection plain{"machine", "Drivers", {}, {}};
  plain.ok("glibc", "2.36");
  plain.skip("CUDA driver", "not there");
  HealthSection table{"isa", "Instruction sets", {"cpu", "chosen"}, {}};
  table.checks.push_back({Verdict::kOk, "avx2", "", "", {"yes", "no"}, {}});
  table.checks.push_back({Verdict::kSkip, "amx", "no tiles", "", {"no", "no"}, {}});
  return {{plain, table}};
}

TEST(HealthReportTest, WorstCheckDecides) {
  HealthReport report = small_report();
  EXPECT_EQ(health_of(report), Health::kHealthy);
  report.sections[0].warn("plugin", "rejected", "repair it");
  EXPECT_EQ(health_of(report), Health::kDegraded);
  report.sections[1].checks.push_back({Verdict::kFail, "x", "", "", {"", ""}, {}});
  EXPECT_EQ(health_of(report), Health::kUnusable);
  EXPECT_EQ(static_cast<int>(Health::kHealthy), 0);
  EXPECT_EQ(static_cast<int>(Health::kDegraded), 1);
  EXPECT_EQ(static_cast<int>(Health::kUnusable), 2);
}

TEST(HealthReportTest, TextHasALineACheckAndItsNextStep) {
  HealthReport report = small_report();
  report.sections[0].fail("plugin", "rejected\nat stage ELF", "repair it");
  EXPECT_EQ(health_text(report),
            "Drivers\n"
            "  ok    glibc        2.36\n"
            "  skip  CUDA driver  not there\n"
            "  FAIL  plugin       rejected\n"
            "                     at stage ELF\n"
            "                     next: repair it\n"
            "\n"
            "Instruction sets\n"
            "              cpu  chosen\n"
            "  ok    avx2  yes  no\n"
            "  skip  amx   no   no      no tiles\n"
            "\n"
            "unusable: 1 failed, 0 warned, 2 ok, 2 skipped\n");
}

TEST(HealthReportTest, JsonHasEveryField) {
  HealthReport report = small_report();
  report.sections[0].warn("plugin", "rejected", "repair it");
  report.sections[0].checks.back().stages = {{"path", "passed"}, {"ELF", "failed"}};
  EXPECT_EQ(health_json(report).dump(),
            R"({"schema":1,"health":"degraded","exit_code":1,"sections":[)"
            R"({"id":"machine","title":"Drivers","checks":[)"
            R"({"name":"glibc","verdict":"ok","detail":"2.36"},)"
            R"({"name":"CUDA driver","verdict":"skip","detail":"not there"},)"
            R"({"name":"plugin","verdict":"warn","detail":"rejected","next_step":"repair it",)"
            R"("stages":{"path":"passed","ELF":"failed"}}]},)"
            R"({"id":"isa","title":"Instruction sets","checks":[)"
            R"({"name":"avx2","verdict":"ok","detail":"","cpu":"yes","chosen":"no"},)"
            R"({"name":"amx","verdict":"skip","detail":"no tiles","cpu":"no","chosen":"no"}]}]})");
}

TEST(DriverVersionsTest, VersionIsTheFirstWordOfDigitsAndPoints) {
  EXPECT_EQ(version_in("NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  Thu Jan 23"),
            "570.86.15");
  EXPECT_EQ(version_in("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  x"),
            "580.65.06");
  EXPECT_EQ(version_in("6.10.5"), "6.10.5");
  EXPECT_EQ(version_in("no version in 2025, sorry."), "");
  EXPECT_EQ(version_in(""), "");
}

TEST(DriverVersionsTest, TheSystemsOwnAreFound) {
  const std::vector<Component> components = find_components();
  ASSERT_EQ(components.size(), 7U);
  EXPECT_EQ(components[0].name, "kernel");
  EXPECT_EQ(components[1].name, "glibc");
  EXPECT_EQ(components[2].name, "libstdc++");
  for (size_t i = 0; i < 3; ++i) EXPECT_NE(components[i].version, "") << components[i].name;
  // What is missing says how it was looked for.
  for (const Component& component : components) EXPECT_NE(component.detail, "") << component.name;
}

// A processor with AVX-512 and AMX in a system that saves AVX registers only.
TEST(DoctorIsaTest, CpuSystemAndPermissionAreToldApart) {
  CpuSnapshot snapshot;
  snapshot.brand = "Test CPU";
  snapshot.leaf1_ecx = snapshot.leaf7_ebx = snapshot.leaf7_ecx = ~0U;
  snapshot.leaf7_edx = snapshot.leaf7_1_eax = snapshot.extended1_ecx = ~0U;
  snapshot.xcr0 = 0x7;
  const HealthSection section = check_isa(Examined(), CpuIsa(snapshot));
  EXPECT_EQ(section.title, "Instruction sets: Test CPU");
  ASSERT_THAT(section.columns, ElementsAre("cpu", "operating_system", "permission", "chosen"));
  ASSERT_EQ(section.checks.size(), 4U);
  EXPECT_EQ(section.checks[0].name, "generic");
  EXPECT_THAT(section.checks[0].cells, ElementsAre("yes", "yes", "not needed", "no"));
  EXPECT_EQ(section.checks[1].name, "avx2");
  EXPECT_THAT(section.checks[1].cells, ElementsAre("yes", "yes", "not needed", "no"));
  EXPECT_EQ(section.checks[2].name, "avx512");
  EXPECT_EQ(section.checks[2].verdict, Verdict::kSkip);
  EXPECT_THAT(section.checks[2].cells, ElementsAre("yes", "no", "not needed", "no"));
  EXPECT_THAT(section.checks[2].detail, HasSubstr("operating system"));
  EXPECT_EQ(section.checks[3].name, "amx");
  EXPECT_THAT(section.checks[3].cells, ElementsAre("yes", "no", "no", "no"));
}

}  // namespace
}  // namespace encore
