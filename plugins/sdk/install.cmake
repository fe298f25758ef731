# The SDK, as component `sdk` of the install tree: what an outside project needs to build a plugin
# with a compiler of its own. Nothing in it is compiled, and nothing names a place on this machine.
#
#   PREFIX/include/encore/              public interfaces, C ABI, C++ adapter, the lowering's headers
#   PREFIX/lib/cmake/EncoreSDK/          the CMake package, with encore_add_backend()
#   PREFIX/share/encore/sdk/lowering/    the lowering, as source
#   PREFIX/share/encore/sdk/kernels/     the reference kernels, as source, and their headers
#   PREFIX/share/encore/example/         a whole backend to start from
include(CMakePackageConfigHelpers)
include(${PROJECT_SOURCE_DIR}/kernels/cpu/sources.cmake)

set(encore_sdk_package lib/cmake/EncoreSDK)
set(encore_sdk_sources share/encore/sdk)
set(encore_kernels ${PROJECT_SOURCE_DIR}/kernels)

install(DIRECTORY
  ${PROJECT_SOURCE_DIR}/core/include/encore
  ${PROJECT_SOURCE_DIR}/plugins/sdk/include/encore
  ${PROJECT_SOURCE_DIR}/plugins/lowering/include/encore
  DESTINATION include COMPONENT sdk FILES_MATCHING PATTERN "*.h")

install(DIRECTORY ${PROJECT_SOURCE_DIR}/plugins/lowering/src/
  DESTINATION ${encore_sdk_sources}/lowering COMPONENT sdk)
install(FILES ${PROJECT_SOURCE_DIR}/plugins/lowering/sources.cmake
  DESTINATION ${encore_sdk_sources}/lowering COMPONENT sdk)

# The kernels call one another's headers by path from here.
install(DIRECTORY ${encore_kernels}/include/kernels/cpu
  DESTINATION ${encore_sdk_sources}/kernels/include/kernels COMPONENT sdk)
set(encore_sdk_kernels ${ENCORE_CPU_KERNELS_GENERIC} ${ENCORE_CPU_KERNELS_GENERIC_HEADERS}
                       sources.cmake)
list(TRANSFORM encore_sdk_kernels PREPEND ${encore_kernels}/cpu/)
install(FILES ${encore_sdk_kernels} DESTINATION ${encore_sdk_sources}/kernels/cpu COMPONENT sdk)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/plugins/example/
  DESTINATION share/encore/example COMPONENT sdk)

configure_file(${CMAKE_CURRENT_SOURCE_DIR}/EncoreSDKConfig.cmake.in
               ${CMAKE_CURRENT_BINARY_DIR}/EncoreSDKConfig.cmake @ONLY)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/EncoreSDKConfigVersion.cmake
  VERSION ${PROJECT_VERSION} COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES
  ${CMAKE_CURRENT_BINARY_DIR}/EncoreSDKConfig.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/EncoreSDKConfigVersion.cmake
  ${PROJECT_SOURCE_DIR}/cmake/EncoreBackend.cmake
  ${PROJECT_SOURCE_DIR}/cmake/encore_backend.map
  DESTINATION ${encore_sdk_package} COMPONENT sdk)
