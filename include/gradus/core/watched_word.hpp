#pragma once
// A number that threads sleep on until it changes.

#include <atomic>
#include <cstdint>

#if defined(_WIN32)
#include <condition_variable>
#include <mutex>
#endif

namespace gradus::platform {  // shared by all builds

#if defined(_WIN32)
/// A std::atomic<std::uint32_t> whose wait() misses no change. libstdc++ has no futex on Windows: its own wait() sleeps
/// on if the notification comes between its last look and its sleep.
class watched_word : public std::atomic<std::uint32_t> {
 public:
  using std::atomic<std::uint32_t>::atomic;

  void wait(std::uint32_t old, std::memory_order order) const {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return load(order) != old; });
  }
  void notify_all() {
    mutex_.lock();  // a thread that has seen the old value sleeps by then
    mutex_.unlock();
    changed_.notify_all();
  }
  void notify_one() { notify_all(); }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
};
#else
using watched_word = std::atomic<std::uint32_t>;
#endif

}  // namespace gradus::platform
