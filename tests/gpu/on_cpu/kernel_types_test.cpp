#include "kernel_types.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "demangle.h"

namespace encore::gpu::on_cpu {
namespace {

struct Pair {
  int32_t first;
  double second;
};

void fill(Pair* out, Pair value, int64_t scale) {
  out->first = static_cast<int32_t>(value.first * scale);
  out->second = value.second;
}

TEST(KernelTypesTest, KernelIsCalledByItsParameterListAlone) {
  note_kernel_type<Pair*, Pair, int64_t>();
  const KernelType* type = find_kernel_type(parameters_of(demangle(typeid(fill).name())));
  ASSERT_NE(type, nullptr);
  EXPECT_EQ(type->argument_bytes, (std::vector<size_t>{8, 16, 8}));
  Pair result{};
  Pair* out = &result;
  Pair value{3, 0.5};
  int64_t scale = 7;
  void* arguments[] = {&out, &value, &scale};
  type->call(reinterpret_cast<void*>(&fill), arguments);
  EXPECT_EQ(result.first, 21);
  EXPECT_EQ(result.second, 0.5);
}

TEST(KernelTypesTest, UnknownParameterListHasNoType) {
  EXPECT_EQ(find_kernel_type("(float, float, float, char)"), nullptr);
}

TEST(DemangleTest, ParametersAreTheLastParenthesis) {
  EXPECT_EQ(parameters_of(demangle("_ZN6encore3gpu12_GLOBAL__N_15plainEPfi")), "(float*, int)");
  EXPECT_EQ(parameters_of("void f<(Kind)3>(void (*)(int), float)"), "(void (*)(int), float)");
  EXPECT_EQ(parameters_of("no_function"), "");
  EXPECT_EQ(demangle("not mangled"), "not mangled");
}

}  // namespace
}  // namespace encore::gpu::on_cpu
