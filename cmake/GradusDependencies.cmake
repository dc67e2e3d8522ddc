# Finds what the headers need (threads) and what they use where it is there (CUDA).
# Sets GRADUS_HAS_CUDA to ON or OFF.

find_package(Threads REQUIRED)

set(GRADUS_HAS_CUDA OFF)
if(NOT GRADUS_CUDA STREQUAL "OFF")
  include(GradusCuda)
endif()
