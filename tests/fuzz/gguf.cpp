// Files of llama.cpp: the head, and every tensor that it promises.
#include <gradus/io/gguf.hpp>

#include "fuzz.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const gradus_fuzz::input_file input(data, size);
  return gradus_fuzz::attempt([&] {
    const gradus::gguf_file file(input.path());
    for (const auto& [name, entry] : file.entries())
      gradus_fuzz::attempt([&, &key = name, &shape = entry.shape] { (void)file.read_as<float>(key, shape); });
  });
}
