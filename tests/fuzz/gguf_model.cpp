// Models of llama.cpp, and their tokenizers: turned into a folder.
#include "fuzz.hpp"
#include "gpt/tools/gguf.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const gradus_fuzz::input_file input(data, size);
  const std::filesystem::path folder = input.path().string() + "_folder";
  std::filesystem::create_directories(folder);
  const int done = gradus_fuzz::attempt([&] { gpt::write_folder_of_gguf(input.path(), folder, std::size_t{1} << 30); });
  std::filesystem::remove_all(folder);
  return done;
}
