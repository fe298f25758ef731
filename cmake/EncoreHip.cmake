# encore_hip_library(NAME SOURCES ... INCLUDE dirs...)
#
# A static library of .cu sources for HIP. Each source is compiled for the device once per
# architecture of ENCORE_ROCM_BUILT, by whichever compiler serves it; the code objects are bundled,
# and one compilation for the host, by hipcc, embeds the bundle and registers its kernels. CMake's
# own HIP language takes one compiler for all.
#
# The code objects stay beside the objects as <source>.<architecture>.hsaco; the target's property
# ENCORE_CODE_OBJECTS lists them, and ENCORE_HIP_SOURCES the sources as given.

# The run-time of HIP 5 loads code objects of version 4, which is what its hipcc makes; the run-times
# that know gfx942 and gfx1100 load version 5 too.
set(ENCORE_HIP_CODE_OBJECT_VERSION 5)

# What hipcc tells its clang.
set(ENCORE_HIP_CLANG_FLAGS
  -mllvm -amdgpu-early-inline-all=true -mllvm -amdgpu-function-calls=false)

# -fuse-cuid=none: names would depend on the command line, which differs from compiler to compiler.
set(ENCORE_HIP_FLAGS
  -x hip -std=c++20 -fPIC -fvisibility=hidden -fuse-cuid=none
  -Wall -Wextra -Werror $<$<NOT:$<CONFIG:Debug>>:-DNDEBUG>)

# Makes the folder of device libraries for ENCORE_ROCM_CLANG: AMD's, and those of the architectures
# that they lack. Target encore_hip_device_libraries.
function(encore_hip_device_libraries)
  set(folder ${CMAKE_BINARY_DIR}/hip_device_libraries)
  set(versions)
  foreach(architecture IN LISTS ENCORE_ROCM_BUILT)
    if(ENCORE_ROCM_COMPILER_${architecture} STREQUAL clang)
      string(REPLACE gfx "" suffix ${architecture})
      list(APPEND versions ${suffix}=${ENCORE_ROCM_ISA_${architecture}})
    endif()
  endforeach()
  list(GET ENCORE_ROCM_CLANG_TOOLS 0 llvm_dis)
  list(GET ENCORE_ROCM_CLANG_TOOLS 1 llvm_as)
  string(REPLACE ";" "," versions "${versions}")
  set(script ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/hip_device_libraries.cmake)
  add_custom_command(
    OUTPUT ${folder}/stamp
    COMMAND ${CMAKE_COMMAND} -DFROM=${ENCORE_ROCM_DEVICE_LIBRARIES} -DTO=${folder}
            -DVERSIONS=${versions} -DLLVM_DIS=${llvm_dis} -DLLVM_AS=${llvm_as} -P ${script}
    DEPENDS ${script} ${ENCORE_ROCM_DEVICE_LIBRARIES}/oclc_isa_version_1030.bc
    COMMENT "Making device libraries for ${versions}"
    VERBATIM)
  add_custom_target(encore_hip_device_libraries DEPENDS ${folder}/stamp)
endfunction()

# Leaves the command that compiles for one architecture in the variable named `command`.
function(encore_hip_device_command architecture command)
  if(ENCORE_ROCM_COMPILER_${architecture} STREQUAL hipcc)
    set(compiler ${ENCORE_HIPCC})
  else()
    set(compiler ${ENCORE_ROCM_CLANG} --rocm-path=${ENCORE_ROCM_ROOT}
      --hip-device-lib-path=${CMAKE_BINARY_DIR}/hip_device_libraries
      -idirafter ${ENCORE_HIP_INCLUDE}
      -mcode-object-version=${ENCORE_HIP_CODE_OBJECT_VERSION} ${ENCORE_HIP_CLANG_FLAGS})
  endif()
  set(${command} ${compiler} --offload-arch=${architecture} --cuda-device-only
    --no-gpu-bundle-output -O3 PARENT_SCOPE)
endfunction()

function(encore_hip_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;INCLUDE" ${ARGN})
  list(TRANSFORM ARG_INCLUDE PREPEND -I OUTPUT_VARIABLE includes)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${name}.hip)
  file(MAKE_DIRECTORY ${folder})
  set(launcher)
  if(ENCORE_CCACHE)
    set(launcher ${ENCORE_CCACHE})
  endif()
  set(needs_libraries OFF)
  foreach(architecture IN LISTS ENCORE_ROCM_BUILT)
    if(ENCORE_ROCM_COMPILER_${architecture} STREQUAL clang)
      set(needs_libraries ON)
    endif()
  endforeach()
  if(needs_libraries AND NOT TARGET encore_hip_device_libraries)
    encore_hip_device_libraries()
  endif()
  set(objects)
  set(code_objects)
  foreach(source IN LISTS ARG_SOURCES)
    get_filename_component(stem ${source} NAME_WE)
    set(targets host-x86_64-unknown-linux)
    set(inputs -input=/dev/null)
    set(built)
    foreach(architecture IN LISTS ENCORE_ROCM_BUILT)
      set(output ${folder}/${stem}.${architecture}.hsaco)
      encore_hip_device_command(${architecture} command)
      set(libraries)
      if(ENCORE_ROCM_COMPILER_${architecture} STREQUAL clang)
        set(libraries ${CMAKE_BINARY_DIR}/hip_device_libraries/stamp)
      endif()
      add_custom_command(
        OUTPUT ${output}
        COMMAND ${launcher} ${command} ${ENCORE_HIP_FLAGS} ${includes}
                -MD -MF ${output}.d -c ${CMAKE_CURRENT_SOURCE_DIR}/${source} -o ${output}
        DEPENDS ${source} ${libraries}
        DEPFILE ${output}.d
        COMMENT "Building ${architecture} code of ${source}"
        VERBATIM COMMAND_EXPAND_LISTS)
      list(APPEND targets hipv4-amdgcn-amd-amdhsa--${architecture})
      list(APPEND inputs -input=${output})
      list(APPEND built ${output})
    endforeach()
    list(JOIN targets , targets)
    set(bundle ${folder}/${stem}.hipfb)
    add_custom_command(
      OUTPUT ${bundle}
      COMMAND ${ENCORE_HIP_BUNDLER} -type=o -bundle-align=4096 -targets=${targets} ${inputs}
              -output=${bundle}
      DEPENDS ${built}
      COMMENT "Bundling device code of ${source}"
      VERBATIM)
    set(object ${folder}/${stem}.o)
    # ccache sees the bundle's name on the command line, but does not know that it is a file. Device
    # functions that kernels alone call are not needed here.
    add_custom_command(
      OUTPUT ${object}
      COMMAND ${CMAKE_COMMAND} -E env CCACHE_EXTRAFILES=${bundle} ${launcher}
              ${ENCORE_HIPCC} --offload-arch=gfx90a --cuda-host-only -O2 ${ENCORE_HIP_FLAGS}
              -Wno-unneeded-internal-declaration
              ${includes} -Xclang -fcuda-include-gpubinary -Xclang ${bundle}
              -MD -MF ${object}.d -c ${CMAKE_CURRENT_SOURCE_DIR}/${source} -o ${object}
      DEPENDS ${source} ${bundle}
      DEPFILE ${object}.d
      COMMENT "Building HIP object of ${source}"
      VERBATIM COMMAND_EXPAND_LISTS)
    list(APPEND objects ${object})
    list(APPEND code_objects ${built})
  endforeach()
  add_library(${name} STATIC ${objects})
  set_target_properties(${name} PROPERTIES
    LINKER_LANGUAGE CXX ENCORE_CODE_OBJECTS "${code_objects}"
    ENCORE_HIP_SOURCES "${ARG_SOURCES}")
  target_link_libraries(${name} PUBLIC encore_hip)
endfunction()
