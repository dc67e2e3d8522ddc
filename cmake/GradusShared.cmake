# gradus::shared: what gradus::compiled has, as a shared library for programs without flags for a processor. Its
# functions are compiled once, for any processor, and its kernels for several, each in a library of its own, of which
# the dynamic linker takes the best: it looks into glibc-hwcaps/<processor> beside the library first.

set(gradus_soversion 1)  # one more with each release that programs of the last one cannot use
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  set(processors x86-64-v2 x86-64-v3 x86-64-v4)
endif()
set(GRADUS_PROCESSORS "${processors}" CACHE STRING
  "Values of -march that the shared library has kernels for, besides those for any processor")

add_library(gradus_functions OBJECT EXCLUDE_FROM_ALL)
gradus_add_functions(gradus_functions)
gradus_kernel_sources(kernels)

# gradus_add_shared(<target> <folder>): the library of the functions and of kernels, in a folder of the build.
function(gradus_add_shared target folder)
  set(visible "${PROJECT_SOURCE_DIR}/cmake/gradus.map")
  add_library(${target} SHARED ${kernels})
  target_link_libraries(${target} PUBLIC gradus PRIVATE $<BUILD_INTERFACE:gradus_functions>)
  target_compile_definitions(${target} PUBLIC GRADUS_COMPILED=1 GRADUS_KERNELS_OF_base=1 PRIVATE GRADUS_BUILD=base)
  # A function within the library calls those of the library, whatever a program has under its name: they may have been
  # compiled for another processor.
  target_compile_options(${target} PRIVATE -fvisibility=hidden)
  target_link_options(${target} PRIVATE
    LINKER:-Bsymbolic-functions LINKER:-z,defs "LINKER:--version-script=${visible}")
  set_target_properties(${target} PROPERTIES
    OUTPUT_NAME gradus VERSION ${PROJECT_VERSION} SOVERSION ${gradus_soversion} EXPORT_NAME shared
    LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/shared/${folder}" LINK_DEPENDS "${visible}")
endfunction()

gradus_add_shared(gradus_shared .)
add_library(gradus::shared ALIAS gradus_shared)
add_custom_target(gradus_shared_all DEPENDS gradus_shared)
foreach(processor IN LISTS GRADUS_PROCESSORS)
  gradus_add_shared(gradus_shared_${processor} glibc-hwcaps/${processor})
  target_compile_options(gradus_shared_${processor} PRIVATE -march=${processor})
  add_dependencies(gradus_shared_all gradus_shared_${processor})
endforeach()
