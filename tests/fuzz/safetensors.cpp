// Files of tensors: the header, and every tensor that it promises.
#include <gradus/io/safetensors.hpp>
#include <vector>

#include "fuzz.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const gradus_fuzz::input_file input(data, size);
  return gradus_fuzz::attempt([&] {
    gradus::safetensors_file file(input.path());
    gradus_fuzz::attempt([&] { file.check_checksum(); });
    for (const auto& [name, entry] : file.entries())
      gradus_fuzz::attempt([&, &key = name, &shape = entry.shape] { (void)file.read_as<float>(key, shape); });
  });
}
