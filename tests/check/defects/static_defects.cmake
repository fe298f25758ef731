# Defects of the file itself: what is linked in, and how.
enable_language(C)

# encore_static_defect(NAME RULE [SOURCE file] [VERSION_SCRIPT file] [LINK_OPTIONS ...])
function(encore_static_defect name rule)
  cmake_parse_arguments(ARG "" "SOURCE;VERSION_SCRIPT" "LINK_OPTIONS" ${ARGN})
  encore_defect(${name} ${rule} LINK_OPTIONS ${ARG_LINK_OPTIONS})
  set(plugin encore_backend_${name})
  if(ARG_SOURCE)
    target_sources(${plugin} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/static/${ARG_SOURCE})
  endif()
  if(ARG_VERSION_SCRIPT)
    # In place of the one that encore_add_backend() links with.
    get_target_property(options ${plugin} LINK_OPTIONS)
    list(FILTER options EXCLUDE REGEX "version-script")
    set_target_properties(${plugin} PROPERTIES LINK_OPTIONS "${options}")
    target_link_options(${plugin} PRIVATE
      LINKER:--version-script=${CMAKE_CURRENT_SOURCE_DIR}/static/${ARG_VERSION_SCRIPT})
  endif()
endfunction()

encore_static_defect(extra_symbol S01 SOURCE extra_symbol.c VERSION_SCRIPT extra_symbol.map)
encore_static_defect(unique_symbol S02 SOURCE unique_symbol.c VERSION_SCRIPT extra_symbol.map)
encore_static_defect(executable_stack S03 LINK_OPTIONS LINKER:-z,execstack)
encore_static_defect(relative_run_path S04 LINK_OPTIONS LINKER:-rpath,lib)
if(CMAKE_SYSTEM_PROCESSOR STREQUAL x86_64)
  encore_static_defect(text_relocation S05 SOURCE text_relocation.c LINK_OPTIONS LINKER:-z,notext)
endif()
encore_static_defect(writable_code S06 SOURCE writable_code.c)
encore_static_defect(private_symbol S07 SOURCE private_symbol.c)

# Found because a library that the plugin does not name is in the process already.
add_library(encore_test_of_the_host SHARED static/symbol_of_the_host.c)
encore_static_defect(unnamed_symbol L11 SOURCE unnamed_symbol.c LINK_OPTIONS LINKER:-z,undefs)
set_property(TEST Defects.unnamed_symbol APPEND PROPERTY ENVIRONMENT
  LD_PRELOAD=$<TARGET_FILE:encore_test_of_the_host>)
