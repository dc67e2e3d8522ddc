// JSON.
#include <gradus/io/json.hpp>

#include "fuzz.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return gradus_fuzz::attempt([&] { (void)gradus::parse_json(gradus_fuzz::text_of(data, size), "input"); });
}
