#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <gradus/core/watched_word.hpp>
#include <thread>

TEST_CASE("threads that sleep until a word changes miss no change") {
  constexpr std::uint32_t turns = 3000;
  gradus::platform::watched_word word{0};
  const auto take_turns = [&](std::uint32_t mine) {  // each thread waits for the other one's turn to end
    for (std::uint32_t turn = mine; turn < turns; turn += 2) {
      for (std::uint32_t now; (now = word.load(std::memory_order_acquire)) != turn;)
        word.wait(now, std::memory_order_acquire);
      word.store(turn + 1, std::memory_order_release);
      word.notify_all();
    }
  };
  std::thread other(take_turns, 1);
  take_turns(0);
  other.join();
  CHECK(word.load() == turns);
}
