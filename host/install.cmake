# An install tree that can be moved: the binary, its libraries beside it, plugins, examples.
#
#   PREFIX/bin/encore
#   PREFIX/lib/*.so*                  what the binary and the plugins need beyond the C library
#   PREFIX/lib/encore/plugins/*.so     (installed by encore_add_backend)
#   PREFIX/share/encore/configs/
# RPATH rather than RUNPATH: it also serves the libraries that the copied libraries need.
target_link_options(encore PRIVATE -Wl,--disable-new-dtags)

install(TARGETS encore RUNTIME_DEPENDENCY_SET encore_dependencies DESTINATION bin)
if(TARGET encore_chat_template)
  # Python itself is not copied: chat needs the system's python3 and its jinja2.
  set_target_properties(encore_chat_template PROPERTIES INSTALL_RPATH "$ORIGIN")
  install(TARGETS encore_chat_template LIBRARY DESTINATION lib)
endif()
install(RUNTIME_DEPENDENCY_SET encore_dependencies
  DESTINATION lib
  PRE_EXCLUDE_REGEXES "^ld-linux" "^libc\\.so" "^libm\\.so" "^libstdc\\+\\+\\.so" "^libgcc_s\\.so"
                      "^libpthread\\.so" "^libdl\\.so" "^librt\\.so" "^linux-vdso"
  POST_EXCLUDE_REGEXES "^/lib64/")
install(DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/../configs/ DESTINATION share/encore/configs
        FILES_MATCHING PATTERN "*.yaml")
