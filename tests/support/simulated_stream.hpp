#pragma once
// Streams without a device, for tests of stream ordering.

#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <new>
#include <vector>

#include <gradus/memory/diagnostics.hpp>
#include <gradus/memory/resource.hpp>

namespace gradus::testing {

/// A stream whose work runs only when a test says so. It computes nothing: only the order of work matters.
class simulated_stream {
  struct timeline;
  // How far other streams must have run: the largest position of each.
  using clock = std::map<std::shared_ptr<timeline>, std::size_t>;
  // Work has positions 1, 2, 3, …; some of it waits for positions of other streams.
  struct timeline {
    std::size_t submitted = 0;
    std::size_t completed = 0;
    std::deque<clock> work;  // the dependencies of the work from completed + 1 on
  };

 public:
  static constexpr std::size_t alignment = 64;

  /// A point of a stream; stays valid after the stream.
  class event {
   public:
    bool done() const { return at_ == nullptr || at_->completed >= position_; }
    void synchronize() const {
      if (at_ != nullptr) run(*at_, position_);
    }

   private:
    friend simulated_stream;
    std::shared_ptr<timeline> at_;
    std::size_t position_ = 0;
    clock after_;
  };

  simulated_stream() = default;
  simulated_stream(int) = delete;
  simulated_stream(const simulated_stream&) = delete;
  simulated_stream& operator=(const simulated_stream&) = delete;
  ~simulated_stream() { complete_all(); }

  /// Submits one piece of work.
  void submit() {
    ++line_->submitted;
    line_->work.emplace_back();
  }
  void record(event& e) noexcept {
    submit();
    e.at_ = line_;
    e.position_ = line_->submitted;
    e.after_ = after_;
  }
  /// Makes later work wait for `e`.
  void wait(const event& e) {
    ++waits_;
    submit();
    if (e.at_ == nullptr || e.at_ == line_) return;
    line_->work.back()[e.at_] = e.position_;
    merge(after_, e.after_);
    auto& position = after_[e.at_];
    position = std::max(position, e.position_);
  }
  /// Makes the host wait.
  void synchronize() {
    ++synchronizations_;
    complete_all();
  }

  /// Runs the oldest pending work; returns false if there is none or it waits for another stream.
  bool complete_one() {
    if (line_->completed == line_->submitted) return false;
    for (const auto& [other, position] : line_->work.front())
      if (other->completed < position) return false;
    step(*line_);
    return true;
  }
  /// Runs all work, and the work of other streams that it waits for.
  void complete_all() { run(*line_, line_->submitted); }

  /// True if work submitted from now on cannot run before `e`: it is done, or this stream waits for it.
  bool ordered_after(const event& e) const {
    if (e.done() || e.at_ == line_) return true;
    const auto found = after_.find(e.at_);
    return found != after_.end() && found->second >= e.position_;
  }
  /// Number of waits of this stream for others, and of the host for this one.
  std::size_t waits() const { return waits_; }
  std::size_t synchronizations() const { return synchronizations_; }

 private:
  static void merge(clock& into, const clock& from) {
    for (const auto& [line, position] : from) {
      auto& known = into[line];
      known = std::max(known, position);
    }
  }
  static void step(timeline& line) {
    ++line.completed;
    line.work.pop_front();
  }
  static void run(timeline& line, std::size_t position) {
    while (line.completed < position) {
      for (const auto& [other, needed] : line.work.front()) run(*other, needed);
      step(line);
    }
  }

  std::shared_ptr<timeline> line_ = std::make_shared<timeline>();
  clock after_;
  std::size_t waits_ = 0;
  std::size_t synchronizations_ = 0;
};

static_assert(event_stream<simulated_stream>);

/// Memory for simulated streams, up to a limit. Never reuses an address: a shared one is a fault of a resource above.
class simulated_memory final : public basic_resource<simulated_stream> {
 public:
  explicit simulated_memory(std::size_t limit_bytes = std::size_t{1} << 40) : limit_(limit_bytes) {}
  ~simulated_memory() override {
    for (void* memory : all_) ::operator delete(memory, std::align_val_t{memory_request::alignment});
  }
  std::size_t live() const { return live_; }
  std::size_t allocations() const { return all_.size(); }

 private:
  void* do_allocate(const memory_request& request, simulated_stream&) override {
    if (request.bytes > limit_ - live_)
      throw shortage("simulated memory", request, {.live = live_, .limit = limit_, .fits = limit_ - live_});
    all_.reserve(all_.size() + 1);
    all_.push_back(::operator new(request.bytes, std::align_val_t{memory_request::alignment}));
    live_ += request.bytes;
    return all_.back();
  }
  void do_deallocate(void*, const memory_request& request, simulated_stream&) noexcept override {
    live_ -= request.bytes;
  }

  std::size_t limit_;
  std::size_t live_ = 0;
  std::vector<void*> all_;
};

}  // namespace gradus::testing
