# ROCm, if the machine can build it. Sets ENCORE_BUILD_ROCM.
#
#   ENCORE_ROCM=auto (default)  builds the rocm plugin if hipcc of HIP 5 or later is found
#   ENCORE_ROCM=on              fails without it
#   ENCORE_ROCM=off             does not look
#
# The plugin links against HIP's run-time library, libamdhip64, of the major version whose headers
# it was built with; a machine that has another one needs another build. hipBLASLt, rocBLAS and RCCL
# are opened at run time, and own kernels serve where a BLAS is missing.
#
# hipcc builds what its own clang knows. Architectures that are newer than it, gfx942 and gfx1100 for
# the one of HIP 5.2, are built by ENCORE_ROCM_CLANG with hipcc's headers and device libraries.
set(ENCORE_ROCM auto CACHE STRING "Build the rocm plugin: auto, on or off")
set_property(CACHE ENCORE_ROCM PROPERTY STRINGS auto on off)
set(ENCORE_ROCM_ARCHITECTURES auto CACHE STRING
    "GPU architectures to build for: gfx90a;gfx942;gfx1100, say; auto: those three that can be")

# Leaves in the variable named `works` whether a compiler makes code for the architecture.
function(encore_hip_compiles works)
  execute_process(
    COMMAND ${ARGN} -x hip --cuda-device-only --no-gpu-bundle-output -c /dev/null
            -o ${CMAKE_BINARY_DIR}/CMakeFiles/hip_probe.o
    RESULT_VARIABLE result OUTPUT_QUIET ERROR_QUIET)
  string(COMPARE EQUAL "${result}" 0 equal)
  set(${works} ${equal} PARENT_SCOPE)
endfunction()

# Leaves in the variable named `lacking` what keeps the plugin from being built; empty if nothing.
function(encore_check_rocm lacking)
  # Device code takes no sanitizer.
  if(ENCORE_SANITIZE OR ENCORE_BUILD_FUZZERS)
    set(${lacking} "a build without sanitizers and fuzzers" PARENT_SCOPE)
    return()
  endif()
  find_program(ENCORE_HIPCC hipcc HINTS ENV HIP_PATH ENV ROCM_PATH PATHS /opt/rocm
               PATH_SUFFIXES bin)
  if(NOT ENCORE_HIPCC)
    set(${lacking} "hipcc of HIP 5 or later (none found; set ROCM_PATH)" PARENT_SCOPE)
    return()
  endif()
  get_filename_component(root ${ENCORE_HIPCC} REALPATH)
  get_filename_component(root ${root} DIRECTORY)
  get_filename_component(root ${root} DIRECTORY)
  set(ENCORE_ROCM_ROOT ${root} PARENT_SCOPE)
  find_path(ENCORE_HIP_INCLUDE hip/hip_version.h HINTS ${root}/include)
  find_library(ENCORE_HIP_LIBRARY amdhip64 HINTS ${root}/lib ${root}/lib64)
  if(NOT ENCORE_HIP_INCLUDE OR NOT ENCORE_HIP_LIBRARY)
    set(${lacking} "HIP's headers and libamdhip64.so beside ${ENCORE_HIPCC} (Debian: \
libamdhip64-dev; set ENCORE_HIP_INCLUDE and ENCORE_HIP_LIBRARY)" PARENT_SCOPE)
    return()
  endif()
  file(READ ${ENCORE_HIP_INCLUDE}/hip/hip_version.h text)
  string(REGEX MATCH "HIP_VERSION_MAJOR +([0-9]+)" match "${text}")
  set(major "${CMAKE_MATCH_1}")
  string(REGEX MATCH "HIP_VERSION_MINOR +([0-9]+)" match "${text}")
  set(ENCORE_HIP_VERSION ${major}.${CMAKE_MATCH_1} PARENT_SCOPE)
  if(NOT major GREATER_EQUAL 5)
    set(${lacking} "HIP 5 or later (${ENCORE_HIP_INCLUDE} is of ${major}.${CMAKE_MATCH_1})"
        PARENT_SCOPE)
    return()
  endif()
  # Without --offload-arch it would look for a GPU.
  execute_process(
    COMMAND ${ENCORE_HIPCC} --offload-arch=gfx90a -print-prog-name=clang-offload-bundler
    OUTPUT_VARIABLE bundler OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  set(ENCORE_HIP_BUNDLER "${bundler}" PARENT_SCOPE)
  if(NOT EXISTS "${bundler}")
    set(${lacking} "clang-offload-bundler beside the clang of ${ENCORE_HIPCC} (Debian: \
clang-tools)" PARENT_SCOPE)
    return()
  endif()
  set(${lacking} "" PARENT_SCOPE)
endfunction()

# Looks for a clang that is newer than hipcc's, with the tools that make the device libraries which
# hipcc's lack. Sets ENCORE_ROCM_CLANG, ENCORE_ROCM_CLANG_TOOLS and ENCORE_ROCM_DEVICE_LIBRARIES.
macro(encore_find_rocm_clang)
  find_program(ENCORE_ROCM_CLANG clang++-19
               DOC "Builds the architectures that hipcc does not know; clang 17 or later")
  find_path(ENCORE_ROCM_DEVICE_LIBRARIES oclc_isa_version_1030.bc
            HINTS ${ENCORE_ROCM_ROOT}/amdgcn/bitcode
            PATHS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/amdgcn/bitcode
            DOC "Folder of AMD's device libraries (bitcode)")
  set(ENCORE_ROCM_CLANG_TOOLS)
  if(ENCORE_ROCM_CLANG AND ENCORE_ROCM_DEVICE_LIBRARIES)
    foreach(encore_tool llvm-dis llvm-as lld)
      execute_process(COMMAND ${ENCORE_ROCM_CLANG} -print-prog-name=${encore_tool}
                      OUTPUT_VARIABLE encore_path OUTPUT_STRIP_TRAILING_WHITESPACE)
      if(IS_ABSOLUTE "${encore_path}")
        list(APPEND ENCORE_ROCM_CLANG_TOOLS ${encore_path})
      endif()
    endforeach()
  endif()
endmacro()

# What __oclc_ISA_version is for architectures that hipcc's device libraries may lack.
set(ENCORE_ROCM_ISA_gfx942 9402)
set(ENCORE_ROCM_ISA_gfx1100 11000)

# Leaves in the variable named `compiler` who builds the architecture: hipcc, clang, or nobody.
function(encore_hip_compiler_of architecture compiler)
  if(NOT DEFINED ENCORE_ROCM_COMPILER_${architecture})
    set(found none)
    encore_hip_compiles(works ${ENCORE_HIPCC} --offload-arch=${architecture})
    list(LENGTH ENCORE_ROCM_CLANG_TOOLS num_tools)
    if(works)
      set(found hipcc)
    elseif(DEFINED ENCORE_ROCM_ISA_${architecture} AND num_tools EQUAL 3)
      encore_hip_compiles(works ${ENCORE_ROCM_CLANG} --offload-arch=${architecture}
        -nogpulib -nogpuinc)
      if(works)
        set(found clang)
      endif()
    endif()
    if(found STREQUAL none)  # asked again: somebody may have installed what it takes
      set(${compiler} none PARENT_SCOPE)
      return()
    endif()
    set(ENCORE_ROCM_COMPILER_${architecture} ${found} CACHE INTERNAL "")
  endif()
  set(${compiler} ${ENCORE_ROCM_COMPILER_${architecture}} PARENT_SCOPE)
endfunction()

set(ENCORE_BUILD_ROCM OFF)
if(ENCORE_ROCM STREQUAL off)
  message(STATUS "rocm plugin: not built; ENCORE_ROCM is off")
  return()
endif()
encore_check_rocm(encore_rocm_lacks)
if(encore_rocm_lacks)
  if(ENCORE_ROCM STREQUAL on)
    message(FATAL_ERROR "ENCORE_ROCM is on, but it needs ${encore_rocm_lacks}")
  endif()
  message(STATUS "rocm plugin: not built; it needs ${encore_rocm_lacks}")
  return()
endif()
encore_find_rocm_clang()

set(ENCORE_ROCM_BUILT)  # gfx90a;gfx942;...
set(encore_wanted ${ENCORE_ROCM_ARCHITECTURES})
if(encore_wanted STREQUAL auto)
  set(encore_wanted gfx90a gfx942 gfx1100)
endif()
foreach(encore_architecture IN LISTS encore_wanted)
  encore_hip_compiler_of(${encore_architecture} encore_compiler)
  if(NOT encore_compiler STREQUAL none)
    list(APPEND ENCORE_ROCM_BUILT ${encore_architecture})
  elseif(ENCORE_ROCM_ARCHITECTURES STREQUAL auto)
    message(STATUS "rocm plugin: without ${encore_architecture}: ${ENCORE_HIPCC} does not know it, "
      "and no clang++-19 with lld, llvm-dis and llvm-as was found")
  else()
    message(FATAL_ERROR "ENCORE_ROCM_ARCHITECTURES has ${encore_architecture}, which neither "
      "${ENCORE_HIPCC} nor a clang++-19 with lld, llvm-dis and llvm-as builds")
  endif()
endforeach()
if(NOT ENCORE_ROCM_BUILT)
  if(ENCORE_ROCM STREQUAL on OR NOT ENCORE_ROCM_ARCHITECTURES STREQUAL auto)
    message(FATAL_ERROR "ENCORE_ROCM_ARCHITECTURES is '${ENCORE_ROCM_ARCHITECTURES}', of which "
      "nothing can be built; ENCORE_ROCM=off builds no rocm plugin")
  endif()
  message(STATUS "rocm plugin: not built; ${ENCORE_HIPCC} makes no code for a GPU (Debian: "
    "rocm-device-libs)")
  return()
endif()
set(ENCORE_BUILD_ROCM ON)
string(REPLACE ";" ", " encore_text "${ENCORE_ROCM_BUILT}")
message(STATUS "rocm plugin: HIP ${ENCORE_HIP_VERSION} for ${encore_text}")
include(EncoreHip)

# HIP's host interface, for g++.
add_library(encore_hip INTERFACE)
target_include_directories(encore_hip SYSTEM INTERFACE ${ENCORE_HIP_INCLUDE})
target_compile_definitions(encore_hip INTERFACE __HIP_PLATFORM_AMD__=1)
target_link_libraries(encore_hip INTERFACE ${ENCORE_HIP_LIBRARY})
