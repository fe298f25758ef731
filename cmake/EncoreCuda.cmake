# CUDA, if the machine can build it. Sets ENCORE_BUILD_CUDA.
#
#   ENCORE_CUDA=auto (default)  builds the cuda plugin if nvcc 12.5 or later and the headers of
#                               cuBLASLt and NCCL are found
#   ENCORE_CUDA=on              fails without them
#   ENCORE_CUDA=off             does not look
#
# Nothing links against the driver, cuBLAS or NCCL: the plugin opens them at run time and says
# "unavailable" where they are missing. The run-time library (cudart) is linked statically.
set(ENCORE_CUDA auto CACHE STRING "Build the cuda plugin: auto, on or off")
set_property(CACHE ENCORE_CUDA PROPERTY STRINGS auto on off)
set(ENCORE_CUDA_ARCHITECTURES 90a CACHE STRING "GPU architectures to build for: 80, 90a, 80;90a")

# Leaves in the variable named `lacking` what keeps the plugin from being built; empty if nothing.
function(encore_check_cuda lacking)
  # cudart cannot be instrumented, and device code takes no sanitizer.
  if(ENCORE_SANITIZE OR ENCORE_BUILD_FUZZERS)
    set(${lacking} "a build without sanitizers and fuzzers" PARENT_SCOPE)
    return()
  endif()
  find_program(ENCORE_NVCC nvcc HINTS ENV CUDACXX ENV CUDA_PATH PATHS /usr/local/cuda
               PATH_SUFFIXES bin)
  if(NOT ENCORE_NVCC)
    set(${lacking} "nvcc 12.5 or later (none found; set CUDACXX)" PARENT_SCOPE)
    return()
  endif()
  execute_process(COMMAND ${ENCORE_NVCC} --version OUTPUT_VARIABLE text)
  string(REGEX MATCH "release ([0-9.]+)" match "${text}")
  # The first with cudaGetDriverEntryPointByVersion.
  if(NOT CMAKE_MATCH_1 VERSION_GREATER_EQUAL 12.5)
    set(${lacking} "nvcc 12.5 or later (${ENCORE_NVCC} is ${CMAKE_MATCH_1}; set CUDACXX)"
        PARENT_SCOPE)
    return()
  endif()
  get_filename_component(toolkit ${ENCORE_NVCC} REALPATH)
  get_filename_component(toolkit ${toolkit} DIRECTORY)
  find_path(ENCORE_CUBLAS_INCLUDE cublasLt.h HINTS ${toolkit}/../include)
  find_path(ENCORE_NCCL_INCLUDE nccl.h HINTS ${toolkit}/../include)
  if(NOT ENCORE_CUBLAS_INCLUDE)
    set(${lacking} "cublasLt.h (set ENCORE_CUBLAS_INCLUDE to its folder)" PARENT_SCOPE)
  elseif(NOT ENCORE_NCCL_INCLUDE)
    set(${lacking} "nccl.h (set ENCORE_NCCL_INCLUDE to its folder)" PARENT_SCOPE)
  else()
    set(${lacking} "" PARENT_SCOPE)
  endif()
endfunction()

foreach(encore_architecture IN LISTS ENCORE_CUDA_ARCHITECTURES)
  if(NOT encore_architecture MATCHES "^(80|90a)$")
    message(FATAL_ERROR "ENCORE_CUDA_ARCHITECTURES has ${encore_architecture}; it takes 80 and 90a")
  endif()
endforeach()
set(ENCORE_BUILD_CUDA OFF)
if(ENCORE_CUDA STREQUAL off)
  message(STATUS "cuda plugin: not built; ENCORE_CUDA is off")
  return()
endif()
encore_check_cuda(encore_cuda_lacks)
if(encore_cuda_lacks)
  if(ENCORE_CUDA STREQUAL on)
    message(FATAL_ERROR "ENCORE_CUDA is on, but it needs ${encore_cuda_lacks}")
  endif()
  message(STATUS "cuda plugin: not built; it needs ${encore_cuda_lacks}")
  return()
endif()
set(ENCORE_BUILD_CUDA ON)

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
target_include_directories(CUDA::cudart_static SYSTEM INTERFACE
  ${ENCORE_CUBLAS_INCLUDE} ${ENCORE_NCCL_INCLUDE})

# `encore_cuda_settings` carries the warnings of .cu files; link it PRIVATE.
add_library(encore_cuda_settings INTERFACE)
target_compile_options(encore_cuda_settings INTERFACE
  "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-Werror=all-warnings -Xcompiler=-Wall,-Wextra,-Werror>")
