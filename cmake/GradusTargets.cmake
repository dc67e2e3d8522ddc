# Helpers for the programs that live in this repository: tests, examples, benchmarks. Users of the library need none.

# Our warnings, as errors where that is asked for (the presets do), and, where asked for, this machine's instruction
# set. Never part of the installed interface.
add_library(gradus_dev INTERFACE)
target_compile_options(gradus_dev INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wconversion;-Wshadow>"
  "$<$<COMPILE_LANG_AND_ID:CUDA,NVIDIA>:-Xcompiler=-Wall,-Wextra>")
if(GRADUS_CUDA_PTX)
  target_compile_options(gradus_dev INTERFACE "$<$<COMPILE_LANG_AND_ID:CUDA,NVIDIA>:--no-compress;-lineinfo>")
endif()
if(GRADUS_WARNINGS_AS_ERRORS)
  target_compile_options(gradus_dev INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-Werror>")
endif()
if(GRADUS_NATIVE)
  include(CheckCXXCompilerFlag)
  check_cxx_compiler_flag(-march=native GRADUS_KNOWS_MARCH_NATIVE)
  if(GRADUS_KNOWS_MARCH_NATIVE)
    set(gradus_native_options -march=native)
    # The host half of a .cu must agree with the .cpp files on the width of a SIMD packet.
    target_compile_options(gradus_dev INTERFACE
      "$<$<COMPILE_LANGUAGE:CXX>:-march=native>"
      "$<$<COMPILE_LANG_AND_ID:CUDA,NVIDIA>:-Xcompiler=-march=native>")
  endif()
endif()

# g++ looks for garbage from 128 MiB on, and what our templates allocate mostly stays in use: less time by a seventh,
# for more memory by a quarter.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(gradus_dev INTERFACE
    "$<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=1048576>"
    "$<$<COMPILE_LANG_AND_ID:CUDA,NVIDIA>:-Xcompiler=--param=ggc-min-heapsize=1048576>")
endif()

if(MINGW)  # more sections than an object has by default
  target_compile_options(gradus_dev INTERFACE -Wa,-mbig-obj)
endif()

# A program with the property GRADUS_PROCESSOR is compiled for that value of -march, whatever this machine has.
set(gradus_processor "$<TARGET_PROPERTY:GRADUS_PROCESSOR>")
target_compile_options(gradus_dev INTERFACE
  "$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${gradus_processor}>>:-march=${gradus_processor}>")

gradus_add_compiled(${gradus_native_options})
target_link_libraries(gradus_compiled PRIVATE $<BUILD_INTERFACE:gradus_dev>)
if(TARGET gradus_cuda_compiled)
  target_link_libraries(gradus_cuda_compiled PRIVATE $<BUILD_INTERFACE:gradus_dev>)
endif()

# gradus/interop/eigen.hpp is for those who have Eigen; its lesson and tests are built where it is found.
find_package(Eigen3 3.3 QUIET NO_MODULE)

# Where there is no GPU, the CUDA programs of a folder are only compiled, and one architecture is enough to see that
# they do: no code of ours asks which it is.
macro(gradus_one_cuda_architecture)
  if(CMAKE_CUDA_ARCHITECTURES AND NOT EXISTS /dev/nvidiactl AND NOT EXISTS /dev/dxg)
    list(GET CMAKE_CUDA_ARCHITECTURES 0 CMAKE_CUDA_ARCHITECTURES)  # of this folder alone, not the cached list
  endif()
endmacro()

# gradus_executable(<name> <sources...> [LIBRARIES <targets...>])
# A program of ours: the library, our warnings and, if one of its sources is a .cu, the GPU half.
function(gradus_executable name)
  cmake_parse_arguments(arg "" "" "LIBRARIES" ${ARGN})
  add_executable(${name} ${arg_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE gradus::gradus gradus_dev ${arg_LIBRARIES})
  if("${arg_UNPARSED_ARGUMENTS}" MATCHES "\\.cu(;|$)")
    if(NOT GRADUS_HAS_CUDA)
      message(FATAL_ERROR
        "gradus_executable(${name}): a .cu source needs CUDA; guard the call with if(GRADUS_HAS_CUDA)")
    endif()
    target_link_libraries(${name} PRIVATE gradus::cuda_compiled $<$<BOOL:${GRADUS_CUDNN}>:gradus::cudnn>)
    set_target_properties(${name} PROPERTIES GRADUS_NEEDS_GPU ON)
  endif()
endfunction()

# gradus_command(<variable> <target>): what starts a program of ours, in the terms of add_test(COMMAND): those with GPU
# code under GRADUS_CUDA_LAUNCHER, and those of another processor in CMAKE_CROSSCOMPILING_EMULATOR, by a script beside
# the program, <program>.run.
function(gradus_command variable target)
  set(command "$<TARGET_FILE:${target}>")
  get_target_property(needs_gpu ${target} GRADUS_NEEDS_GPU)
  if(needs_gpu)
    separate_arguments(launcher UNIX_COMMAND "${GRADUS_CUDA_LAUNCHER}")
    list(PREPEND command ${launcher})
  elseif(CMAKE_CROSSCOMPILING_EMULATOR)
    get_target_property(has_script ${target} GRADUS_HAS_SCRIPT)
    if(NOT has_script)
      list(JOIN CMAKE_CROSSCOMPILING_EMULATOR "' '" emulator)
      file(GENERATE OUTPUT "${command}.run" CONTENT "#!/bin/sh\nexec '${emulator}' '${command}' \"$@\"\n"
           FILE_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
      set_target_properties(${target} PROPERTIES GRADUS_HAS_SCRIPT ON)
    endif()
    string(APPEND command ".run")
  endif()
  set(${variable} "${command}" PARENT_SCOPE)
endfunction()
