// 2^x and e^x over a Vector. Include after vector_avx2.h or vector_avx512.h.
//
// x is cut into a whole n and f in [-0.5, 0.5]; 2^f = 1 + f * P(f), with P of degree 5 fitted to
// the least relative error, 2e-9. With rounding, exp2 and exp are within 1.5 ulp of the true value
// where it is a normal f32. Results below that may be 0. NaN stays NaN; -infinity gives 0.
#pragma once

namespace encore::kernels {
namespace {

inline Vector::F exp2_of_fraction(Vector::F f) {
  using V = Vector;
  V::F p = V::set(0.000153533605F);
  p = V::fma(p, f, V::set(0.0013398875F));
  p = V::fma(p, f, V::set(0.00961843692F));
  p = V::fma(p, f, V::set(0.0555033237F));
  p = V::fma(p, f, V::set(0.240226477F));
  p = V::fma(p, f, V::set(0.693147182F));
  return V::fma(p, f, V::set(1.0F));
}

inline Vector::F exp2(Vector::F x) {
  using V = Vector;
  x = V::min(V::set(V::kScaleLimit + 1), V::max(V::set(-V::kScaleLimit), x));
  const V::F n = V::round(x);
  return V::scale(exp2_of_fraction(V::sub(x, n)), n);
}

inline Vector::F exp(Vector::F x) {
  using V = Vector;
  constexpr float kLog2EHigh = 1.44269502F;  // log2(e) to f32, and what is left of it
  constexpr float kLog2ELow = 1.92596303e-8F;
  constexpr float kLn2 = 0.693147182F;
  x = V::min(V::set((V::kScaleLimit + 1) * kLn2), V::max(V::set(-V::kScaleLimit * kLn2), x));
  const V::F n = V::round(V::mul(x, V::set(kLog2EHigh)));
  V::F f = V::fms(x, V::set(kLog2EHigh), n);
  f = V::fma(x, V::set(kLog2ELow), f);
  return V::scale(exp2_of_fraction(f), n);
}

}  // namespace
}  // namespace encore::kernels
