# The examples for the GPU; included where there is CUDA.
if(GRADUS_HAS_CUDA AND NOT TARGET example_cuda_mlp)
  gradus_executable(example_cuda_mlp "${CMAKE_CURRENT_LIST_DIR}/cuda_mlp.cu")
  if(GRADUS_BUILD_TESTS)
    gradus_command(command example_cuda_mlp)
    add_test(NAME example/cuda_mlp COMMAND ${command})
    set_tests_properties(example/cuda_mlp PROPERTIES SKIP_RETURN_CODE 77)
  endif()
endif()
