#ifndef GRADUS_COMPILED
#error "the target gradus::compiled defines GRADUS_COMPILED"
#endif
#include <gradus/core/error.hpp>
#include <gradus/io/atomic_file.hpp>
#include <gradus/io/safetensors.hpp>
#include <string>

#ifdef NLOHMANN_JSON_VERSION_MAJOR
#error "the header of safetensors files includes a JSON library, which is for the file that is compiled once"
#endif

bool finds_the_file_damaged(const char* path) {
  gradus::write_file_atomically(path, "no tensors");
  try {
    const gradus::safetensors_file file(path);
    return false;
  } catch (const gradus::error& problem) { return std::string(problem.what()).find(path) == 0; }
}
