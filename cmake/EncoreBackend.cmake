# encore_add_backend(NAME SOURCES ... [LIBRARIES targets...] [OUTPUT_DIRECTORY dir] [NO_INSTALL])
#
# Makes the plugin encore_backend_<NAME>.so, target encore_backend_<NAME>, in
# ${CMAKE_BINARY_DIR}/lib/encore/plugins, where the host in the build tree looks, and installs it
# into lib/encore/plugins. Only encore_backend_entry is visible; an undefined symbol fails the link;
# libraries installed beside the plugin are found there. Tests pass OUTPUT_DIRECTORY and NO_INSTALL
# to keep their plugins away from the real ones.
set(ENCORE_PLUGIN_VERSION_SCRIPT ${CMAKE_CURRENT_LIST_DIR}/encore_backend.map)

function(encore_add_backend name)
  cmake_parse_arguments(ARG "NO_INSTALL" "OUTPUT_DIRECTORY" "SOURCES;LIBRARIES" ${ARGN})
  if(NOT ARG_SOURCES)
    message(FATAL_ERROR "encore_add_backend(${name}): SOURCES is empty")
  endif()
  if(NOT ARG_OUTPUT_DIRECTORY)
    set(ARG_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib/encore/plugins)
  endif()
  set(target encore_backend_${name})
  add_library(${target} MODULE ${ARG_SOURCES})
  target_link_libraries(${target} PRIVATE encore_sdk ${ARG_LIBRARIES})
  if(TARGET encore_settings AND NOT "${ARG_SOURCES}" MATCHES "\\.c(;|$)")  # its flags are for C++
    target_link_libraries(${target} PRIVATE encore_settings)
  endif()
  set_target_properties(${target} PROPERTIES
    PREFIX "" OUTPUT_NAME encore_backend_${name} SUFFIX .so
    CXX_VISIBILITY_PRESET hidden C_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    LIBRARY_OUTPUT_DIRECTORY ${ARG_OUTPUT_DIRECTORY}
    BUILD_RPATH "$ORIGIN" INSTALL_RPATH "$ORIGIN"
    LINK_DEPENDS ${ENCORE_PLUGIN_VERSION_SCRIPT})
  # Unique symbols would be shared between plugins whatever their visibility (GCC only).
  target_compile_options(${target} PRIVATE
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-fno-gnu-unique>)
  target_link_options(${target} PRIVATE
    "LINKER:--version-script=${ENCORE_PLUGIN_VERSION_SCRIPT}" LINKER:-z,defs)
  if(NOT ARG_NO_INSTALL)
    install(TARGETS ${target} LIBRARY DESTINATION lib/encore/plugins)
  endif()
endfunction()
