# gradus::compiled: gradus::gradus, with its functions that are neither templates nor kernels (files, data, reports,
# tokenizers) compiled once, into a static library, instead of in every source that uses them. It is built when a
# program links it. Included by gradus itself and by the installed package, where gradus_SOURCES is the folder that
# compiled.cpp is in.

if(NOT TARGET gradus_compiled)
  add_library(gradus_compiled STATIC EXCLUDE_FROM_ALL "${gradus_SOURCES}/compiled.cpp")
  add_library(gradus::compiled ALIAS gradus_compiled)
  target_compile_definitions(gradus_compiled PUBLIC GRADUS_COMPILED=1)
  target_link_libraries(gradus_compiled PUBLIC gradus::gradus)
  find_path(GRADUS_NLOHMANN_INCLUDE_DIR nlohmann/json.hpp)
  mark_as_advanced(GRADUS_NLOHMANN_INCLUDE_DIR)
  if(GRADUS_NLOHMANN_INCLUDE_DIR)  # without it, what reads JSON is left out
    target_include_directories(gradus_compiled SYSTEM PRIVATE "${GRADUS_NLOHMANN_INCLUDE_DIR}")
  endif()
  set_target_properties(gradus_compiled PROPERTIES POSITION_INDEPENDENT_CODE ON)
endif()
