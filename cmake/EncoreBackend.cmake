# encore_add_backend(NAME SOURCES ... [LIBRARIES targets...] [VENDOR v] [VERSION v]
#                    [CONFORMANCE text] [OUTPUT_DIRECTORY dir] [NO_INSTALL])
#
# Makes the plugin encore_backend_<NAME>.so, target encore_backend_<NAME>, in
# ${CMAKE_BINARY_DIR}/lib/encore/plugins, where the host in the build tree looks, and installs it
# into lib/encore/plugins. Only encore_backend_entry is visible; an undefined symbol fails the link;
# libraries installed beside the plugin are found there.
#
# VENDOR also writes <NAME>.plugin.yaml beside the library: the manifest by which the host finds the
# plugin in a folder. Names are `vendor.name`, such as acme.toy. VERSION is ${PROJECT_VERSION} unless
# said; CONFORMANCE is what the vendor claims of encore-plugin-check. OUTPUT_DIRECTORY and NO_INSTALL
# keep a plugin away from the real ones, in tests for example.
#
# Used by Encore's own build and, from an installed SDK, by everybody else's: it needs the target
# Encore::sdk and nothing more.

# encore_write_manifest(NAME VENDOR v VERSION v LIBRARY file OUTPUT file [CONFORMANCE text])
function(encore_write_manifest name)
  cmake_parse_arguments(ARG "" "VENDOR;VERSION;LIBRARY;OUTPUT;CONFORMANCE" "" ${ARGN})
  get_property(abi TARGET Encore::sdk PROPERTY ENCORE_ABI_VERSION)
  foreach(key VENDOR VERSION CONFORMANCE)
    string(REPLACE "\\" "\\\\" ARG_${key} "${ARG_${key}}")
    string(REPLACE "\"" "\\\"" ARG_${key} "${ARG_${key}}")
  endforeach()
  string(CONCAT text
    "manifest: 1\n"
    "name: ${name}\n"
    "vendor: \"${ARG_VENDOR}\"\n"
    "version: \"${ARG_VERSION}\"\n"
    "abi: \"${abi}\"\n"
    "library: ${ARG_LIBRARY}\n")
  if(ARG_CONFORMANCE)
    string(APPEND text "conformance: \"${ARG_CONFORMANCE}\"\n")
  endif()
  file(GENERATE OUTPUT ${ARG_OUTPUT} CONTENT "${text}")
endfunction()

function(encore_add_backend name)
  cmake_parse_arguments(ARG "NO_INSTALL" "OUTPUT_DIRECTORY;VENDOR;VERSION;CONFORMANCE"
                        "SOURCES;LIBRARIES" ${ARGN})
  if(ARG_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "encore_add_backend(${name}): unknown ${ARG_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT ARG_SOURCES)
    message(FATAL_ERROR "encore_add_backend(${name}): SOURCES is empty")
  endif()
  if(NOT ARG_OUTPUT_DIRECTORY)
    set(ARG_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib/encore/plugins)
  endif()
  if(NOT ARG_VERSION)
    set(ARG_VERSION ${PROJECT_VERSION})
  endif()
  set(target encore_backend_${name})
  set(version_script ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/encore_backend.map)
  add_library(${target} MODULE ${ARG_SOURCES})
  target_link_libraries(${target} PRIVATE Encore::sdk ${ARG_LIBRARIES})
  if(TARGET encore_settings AND NOT "${ARG_SOURCES}" MATCHES "\\.c(;|$)")  # its flags are for C++
    target_link_libraries(${target} PRIVATE encore_settings)
  endif()
  set_target_properties(${target} PROPERTIES
    PREFIX "" OUTPUT_NAME encore_backend_${name} SUFFIX .so
    CXX_VISIBILITY_PRESET hidden C_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    LIBRARY_OUTPUT_DIRECTORY $<1:${ARG_OUTPUT_DIRECTORY}>  # for every configuration
    # From the start: CMake pads a build tree's run path with an empty entry, the working directory.
    INSTALL_RPATH "$ORIGIN" BUILD_WITH_INSTALL_RPATH ON
    LINK_DEPENDS ${version_script})
  # Unique symbols would be shared between plugins whatever their visibility (GCC only).
  target_compile_options(${target} PRIVATE
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-fno-gnu-unique>)
  target_link_options(${target} PRIVATE
    "LINKER:--version-script=${version_script}" LINKER:-z,defs)
  if(ARG_VENDOR)
    set(manifest ${ARG_OUTPUT_DIRECTORY}/${name}.plugin.yaml)
    encore_write_manifest(${name} VENDOR "${ARG_VENDOR}" VERSION "${ARG_VERSION}"
      LIBRARY encore_backend_${name}.so OUTPUT ${manifest} CONFORMANCE "${ARG_CONFORMANCE}")
  endif()
  if(NOT ARG_NO_INSTALL)
    install(TARGETS ${target} LIBRARY DESTINATION lib/encore/plugins)
    if(ARG_VENDOR)
      install(FILES ${manifest} DESTINATION lib/encore/plugins)
    endif()
  endif()
endfunction()
