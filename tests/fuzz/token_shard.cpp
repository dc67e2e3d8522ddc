// Shards of tokens, and batches from them.
#include <gradus/data/batches.hpp>
#include <gradus/data/token_shard.hpp>

#include "fuzz.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const gradus_fuzz::input_file input(data, size);
  return gradus_fuzz::attempt([&] {
    const gradus::token_shard shard(input.path());
    const gradus::token_windows<std::uint16_t, 4> windows({shard.tokens()}, 1000);
    for (std::uint32_t i = 0; i < 3; ++i) {
      gradus_fuzz::attempt([&] { (void)windows.random_batch<2>(1, i); });
      gradus_fuzz::attempt([&] { (void)windows.shuffled_batch<2>(1, i); });
    }
    shard.check_vocabulary(1000);
  });
}
