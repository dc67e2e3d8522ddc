# gradus::cuda_compiled: gradus::cuda, with its functions that are no templates and cost nvcc much (the sort, by CUB)
# compiled once, into a static library, instead of in every .cu. It is built when a program links it, and is there if
# the project has enabled CUDA. Included by gradus itself and by the installed package, where gradus_SOURCES is the
# folder that compiled.cu is in.

if(TARGET gradus::cuda AND CMAKE_CUDA_COMPILER AND NOT TARGET gradus::cuda_compiled)
  add_library(gradus_cuda_compiled STATIC EXCLUDE_FROM_ALL "${gradus_SOURCES}/compiled.cu")
  add_library(gradus::cuda_compiled ALIAS gradus_cuda_compiled)
  target_compile_definitions(gradus_cuda_compiled PUBLIC $<$<COMPILE_LANGUAGE:CUDA>:GRADUS_CUDA_COMPILED=1>)
  target_link_libraries(gradus_cuda_compiled PUBLIC gradus::cuda)
  set_target_properties(gradus_cuda_compiled PROPERTIES POSITION_INDEPENDENT_CODE ON)
endif()
