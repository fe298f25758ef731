# CUDA, if the machine can build it. Sets ENCORE_BUILD_CUDA.
#
#   ENCORE_CUDA=auto (default)  builds the cuda plugin if nvcc 12.4 or later is found
#   ENCORE_CUDA=on              fails without it
#   ENCORE_CUDA=off             does not look
#
# Nothing links against the driver, cuBLAS or NCCL: the plugin opens them at run time and says
# "unavailable" where they are missing. The run-time library (cudart) is linked statically.
set(ENCORE_CUDA auto CACHE STRING "Build the cuda plugin: auto, on or off")
set_property(CACHE ENCORE_CUDA PROPERTY STRINGS auto on off)
set(ENCORE_CUDA_ARCHITECTURES 90a CACHE STRING "GPU architectures to build for: 80, 90a")

set(ENCORE_BUILD_CUDA OFF)
if(NOT ENCORE_CUDA STREQUAL off)
  find_program(ENCORE_NVCC nvcc HINTS ENV CUDACXX ENV CUDA_PATH PATHS /usr/local/cuda
               PATH_SUFFIXES bin)
  if(ENCORE_NVCC)
    execute_process(COMMAND ${ENCORE_NVCC} --version OUTPUT_VARIABLE encore_nvcc_text)
    string(REGEX MATCH "release ([0-9.]+)" encore_nvcc_match "${encore_nvcc_text}")
    if(CMAKE_MATCH_1 VERSION_GREATER_EQUAL 12.4)
      set(ENCORE_BUILD_CUDA ON)
    endif()
  endif()
  if(NOT ENCORE_BUILD_CUDA AND ENCORE_CUDA STREQUAL on)
    message(FATAL_ERROR "ENCORE_CUDA is on, but no nvcc 12.4 or later was found; set CUDACXX")
  endif()
endif()
if(NOT ENCORE_BUILD_CUDA)
  message(STATUS "cuda plugin: not built (ENCORE_CUDA=${ENCORE_CUDA}, nvcc: ${ENCORE_NVCC})")
  return()
endif()

# cudart cannot be instrumented, and device code takes no sanitizer.
if(ENCORE_SANITIZE OR ENCORE_BUILD_FUZZERS)
  message(STATUS "cuda plugin: not built under a sanitizer")
  set(ENCORE_BUILD_CUDA OFF)
  return()
endif()

list(TRANSFORM ENCORE_CUDA_ARCHITECTURES APPEND -real OUTPUT_VARIABLE CMAKE_CUDA_ARCHITECTURES)
set(CMAKE_CUDA_COMPILER ${ENCORE_NVCC})
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
if(ENCORE_CCACHE)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${ENCORE_CCACHE})
endif()
enable_language(CUDA)
set(CMAKE_CUDA_STANDARD 20)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc has it
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
find_package(CUDAToolkit REQUIRED)

# `encore_cuda_settings` carries the warnings of .cu files; link it PRIVATE.
add_library(encore_cuda_settings INTERFACE)
target_compile_options(encore_cuda_settings INTERFACE
  "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-Werror=all-warnings -Xcompiler=-Wall,-Wextra,-Werror>")
