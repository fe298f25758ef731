# Makes a text file part of the program.
#
# encore_embed_text(TARGET FILE FUNCTION)
# Adds to TARGET a source that defines `std::string_view FUNCTION()` in namespace encore, which
# returns FILE's content. TARGET declares it in a header of its own.
function(encore_embed_text target file function)
  get_filename_component(input ${file} ABSOLUTE)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/${function}.cpp)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -D INPUT=${input} -D OUTPUT=${output} -D FUNCTION=${function}
            -P ${PROJECT_SOURCE_DIR}/cmake/EmbedText.cmake
    DEPENDS ${input} ${PROJECT_SOURCE_DIR}/cmake/EmbedText.cmake
    VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()

# The same file is the script that writes the source.
if(CMAKE_SCRIPT_MODE_FILE)
  file(READ ${INPUT} content)
  string(FIND "${content}" ")encore_text\"" end)
  if(NOT end EQUAL -1)
    message(FATAL_ERROR "${INPUT} contains )encore_text\", which ends its literal; spell it otherwise")
  endif()
  file(WRITE ${OUTPUT} "#include <string_view>

namespace encore {

std::string_view ${FUNCTION}();
std::string_view ${FUNCTION}() {
  static constexpr std::string_view kText = R\"encore_text(${content})encore_text\";
  return kText;
}

}  // namespace encore
")
endif()
