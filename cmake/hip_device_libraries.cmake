# cmake -DFROM=dir -DTO=dir -DVERSIONS=942=9402,1100=11000 -DLLVM_DIS=... -DLLVM_AS=... -P this
#
# Leaves in TO links to AMD's device libraries, all files of FROM, and an oclc_isa_version_<suffix>.bc
# of each suffix=number. Such a library is one constant, the number; it is made from that of gfx1030.
file(REMOVE_RECURSE ${TO})
file(MAKE_DIRECTORY ${TO})
file(GLOB libraries ${FROM}/*.bc)
foreach(library IN LISTS libraries)
  get_filename_component(file ${library} NAME)
  file(CREATE_LINK ${library} ${TO}/${file} SYMBOLIC)
endforeach()
execute_process(
  COMMAND ${LLVM_DIS} ${FROM}/oclc_isa_version_1030.bc -o -
  OUTPUT_VARIABLE assembly COMMAND_ERROR_IS_FATAL ANY)
if(NOT assembly MATCHES "@__oclc_ISA_version = [^\n]* constant i32 10300,")
  message(FATAL_ERROR "${FROM}/oclc_isa_version_1030.bc is not one constant 10300")
endif()
string(REPLACE "," ";" versions "${VERSIONS}")
foreach(version IN LISTS versions)
  string(REGEX MATCH "^([0-9a-f]+)=([0-9]+)$" match ${version})
  set(suffix ${CMAKE_MATCH_1})
  string(REPLACE "constant i32 10300," "constant i32 ${CMAKE_MATCH_2}," text "${assembly}")
  set(source ${TO}/oclc_isa_version_${suffix}.ll)
  set(output ${TO}/oclc_isa_version_${suffix}.bc)
  file(REMOVE ${output})
  file(WRITE ${source} "${text}")
  execute_process(COMMAND ${LLVM_AS} ${source} -o ${output} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
file(TOUCH ${TO}/stamp)
