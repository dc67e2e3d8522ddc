# gradus::compiled: gradus::gradus, with its functions that are no templates (threads, files, data, reports, tokenizers)
# and its kernels for the usual element types compiled once, into a static library, instead of in every source that uses
# them. It is built when a program links it. A source whose flags are for another processor than the library's compiles
# its kernels itself. Included by gradus itself and by the installed package, where gradus_SOURCES is the folder that
# compiled.cpp is in.

# gradus_use_pcre2(<target>): gives the target PCRE2, if it is there: by it, tokenizers read regular expressions for
# which gradus has no code of its own.
function(gradus_use_pcre2 target)
  find_path(GRADUS_PCRE2_INCLUDE_DIR pcre2.h)
  find_library(GRADUS_PCRE2_LIBRARY pcre2-8)
  mark_as_advanced(GRADUS_PCRE2_INCLUDE_DIR GRADUS_PCRE2_LIBRARY)
  if(GRADUS_PCRE2_INCLUDE_DIR AND GRADUS_PCRE2_LIBRARY)
    target_compile_definitions(${target} PRIVATE GRADUS_WITH_PCRE2=1)
    target_include_directories(${target} SYSTEM PRIVATE "${GRADUS_PCRE2_INCLUDE_DIR}")
    target_link_libraries(${target} PRIVATE "${GRADUS_PCRE2_LIBRARY}")
  endif()
endfunction()

# gradus_kernel_sources(<variable>): a source for each part of compiled_kernels.hpp, so that all cores compile them.
function(gradus_kernel_sources variable)
  set(sources "")
  foreach(part RANGE 1 4)
    set(source "${CMAKE_CURRENT_BINARY_DIR}/gradus_kernels_${part}.cpp")
    file(CONFIGURE OUTPUT "${source}"
         CONTENT "#define GRADUS_KERNELS_PART ${part}\n#include <gradus/compiled_kernels.cpp>\n" @ONLY)
    list(APPEND sources "${source}")
  endforeach()
  set(${variable} "${sources}" PARENT_SCOPE)
endfunction()

# gradus_add_functions(<target>): gives compiled.cpp, and what that needs, to a target.
function(gradus_add_functions target)
  target_sources(${target} PRIVATE "${gradus_SOURCES}/compiled.cpp")
  target_compile_definitions(${target} PUBLIC GRADUS_COMPILED=1)
  target_link_libraries(${target} PUBLIC gradus::gradus)
  find_path(GRADUS_NLOHMANN_INCLUDE_DIR nlohmann/json.hpp)
  mark_as_advanced(GRADUS_NLOHMANN_INCLUDE_DIR)
  if(GRADUS_NLOHMANN_INCLUDE_DIR)  # without it, what reads JSON is left out
    target_include_directories(${target} SYSTEM PRIVATE "${GRADUS_NLOHMANN_INCLUDE_DIR}")
  endif()
  gradus_use_pcre2(${target})
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
endfunction()

# gradus_name_build(<variable> <options>...): the name that GRADUS_BUILD in core/config.hpp gives to the flags of the
# project, of add_compile_options() before it, and these options; empty if the compiler does not say.
function(gradus_name_build variable)
  string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
  separate_arguments(flags UNIX_COMMAND "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${type}}")
  get_directory_property(options COMPILE_OPTIONS)
  list(FILTER options EXCLUDE REGEX "^\\$<")
  list(APPEND flags ${options})
  set(question "${CMAKE_CURRENT_BINARY_DIR}/gradus_build_name.cpp")
  file(WRITE "${question}" "#include \"${gradus_SOURCES}/core/config.hpp\"\nGRADUS_TEXT(GRADUS_BUILD)\n")
  execute_process(COMMAND "${CMAKE_CXX_COMPILER}" -std=c++20 ${flags} ${ARGN} -E -P "${question}"
                  OUTPUT_VARIABLE answer ERROR_QUIET)
  string(REGEX MATCH "\"([A-Za-z0-9_]+)\"" answer "${answer}")
  set(${variable} "${CMAKE_MATCH_1}" PARENT_SCOPE)
endfunction()

# gradus_add_compiled(<options>...): the target gradus::compiled, whose users know the name of the build that compiles
# its kernels: without one, they compile kernels themselves. The options are among those that it is compiled with.
function(gradus_add_compiled)
  gradus_kernel_sources(kernels)
  add_library(gradus_compiled STATIC EXCLUDE_FROM_ALL ${kernels})
  add_library(gradus::compiled ALIAS gradus_compiled)
  gradus_add_functions(gradus_compiled)
  gradus_name_build(build ${ARGN})
  target_compile_definitions(gradus_compiled PUBLIC "$<$<BOOL:${build}>:GRADUS_KERNELS_OF_${build}=1>")
endfunction()
