# Runs PROGRAM, writes its output to ACTUAL, and fails unless that equals EXPECTED.
execute_process(COMMAND ${PROGRAM} OUTPUT_FILE ${ACTUAL} RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${PROGRAM} failed with ${result}: a field is missing from abi_layout.inc")
endif()
execute_process(COMMAND ${CMAKE_COMMAND} -E compare_files ${ACTUAL} ${EXPECTED}
                RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "the ABI's layout has changed: review it, then copy ${ACTUAL} to ${EXPECTED}")
endif()
