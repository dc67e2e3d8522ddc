// Two sources that use what gradus::compiled has compiled once.
#include <cstdio>
#include <exception>
#include <gradus/io/atomic_file.hpp>
#include <gradus/io/text_file.hpp>

#if !GRADUS_KERNELS_COMPILED
#error "the kernels of gradus::compiled are not for the flags of add_compile_options()"
#endif

bool finds_the_file_damaged(const char* path);

int main(int count, char** arguments) try {
  if (count != 2) return 2;
  gradus::write_file_atomically(arguments[1], "no tensors");
  return gradus::read_text(arguments[1]) == "no tensors" && finds_the_file_damaged(arguments[1]) ? 0 : 1;
} catch (const std::exception& problem) {
  std::fprintf(stderr, "%s\n", problem.what());
  return 1;
}
