// Whether two function types are called in the same way: for functions of a library that are
// declared twice, in its header and here.
#pragma once

#include <concepts>
#include <type_traits>

namespace encore::rocm {

template <typename A, typename B>
inline constexpr bool kSameValue =
    std::same_as<A, B> || (std::is_pointer_v<A> && std::is_pointer_v<B>) ||
    ((std::is_enum_v<A> || std::is_integral_v<A>)&&(std::is_enum_v<B> ||
                                                    std::is_integral_v<B>)&&sizeof(A) == sizeof(B));

template <typename F, typename G>
struct SameCall : std::false_type {};

template <typename R, typename S, typename... A, typename... B>
requires(sizeof...(A) == sizeof...(B)) struct SameCall<R (*)(A...), S (*)(B...)>
    : std::bool_constant<kSameValue<R, S> && (kSameValue<A, B> && ...)> {
};

}  // namespace encore::rocm
