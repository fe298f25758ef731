# Settings that every Encore target shares.

find_program(ENCORE_CCACHE ccache)
if(ENCORE_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${ENCORE_CCACHE})
endif()

# `encore_settings` carries warnings and sanitizers; link it PRIVATE.
add_library(encore_settings INTERFACE)
target_compile_options(encore_settings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:
  -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor -Woverloaded-virtual
  -Werror -fno-math-errno>)
if(ENCORE_SANITIZE)
  add_compile_options(-fsanitize=${ENCORE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${ENCORE_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # GCC's own documentation: sanitizers make this warning see what is not there.
    add_compile_options(-Wno-maybe-uninitialized)
  endif()
endif()

if(ENCORE_BUILD_FUZZERS)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# encore_library(NAME SOURCES ... PUBLIC targets... PRIVATE targets... INCLUDE dir)
# A static, position-independent library with the project's settings.
function(encore_library name)
  cmake_parse_arguments(ARG "" "INCLUDE" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  if(ARG_INCLUDE)
    target_include_directories(${name} PUBLIC ${ARG_INCLUDE})
  endif()
  target_link_libraries(${name} PUBLIC ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE} encore_settings)
endfunction()

# encore_compile_apart(targets...)
# Their files use one name for different things, so no two may be one translation unit, which
# CMAKE_UNITY_BUILD otherwise makes of eight (in the presets with sanitizers: half of the time).
function(encore_compile_apart)
  set_target_properties(${ARGN} PROPERTIES UNITY_BUILD OFF)
endfunction()

# encore_fuzzer(NAME SOURCES ... LIBRARIES targets...)
# A libFuzzer binary, with ENCORE_BUILD_FUZZERS (the fuzz preset). Seeds are in corpus/<NAME> beside
# its CMakeLists.txt.
function(encore_fuzzer name)
  if(NOT ENCORE_BUILD_FUZZERS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  target_link_libraries(${name} PRIVATE ${ARG_LIBRARIES} encore_settings)
endfunction()

# encore_test(NAME SOURCES ... LIBRARIES targets... [ARGUMENTS ...] [TIMEOUT s])
# A GoogleTest binary whose cases CTest lists one by one.
function(encore_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LIBRARIES;ARGUMENTS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LIBRARIES} GTest::gtest GTest::gmock GTest::gtest_main
                                        encore_settings)
  if(ENCORE_SANITIZE MATCHES undefined)
    # A test's own code is not what is looked at; checking it too takes half of the time to
    # compile it.
    target_compile_options(${name} PRIVATE -fno-sanitize=undefined)
  endif()
  set(properties TIMEOUT ${ARG_TIMEOUT})
  if(ENCORE_SANITIZE MATCHES address)
    list(APPEND properties ENVIRONMENT
         "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/cmake/leak_suppressions.txt:print_suppressions=0")
  endif()
  gtest_discover_tests(${name} EXTRA_ARGS ${ARG_ARGUMENTS} DISCOVERY_TIMEOUT 120
                       PROPERTIES ${properties})
endfunction()
