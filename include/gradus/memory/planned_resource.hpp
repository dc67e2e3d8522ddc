#pragma once
// Planned memory: replays the allocations of a memory_plan in one workspace.

#include <algorithm>
#include <cstddef>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "../core/error.hpp"
#include "diagnostics.hpp"
#include "memory_plan.hpp"
#include "poison.hpp"
#include "resource.hpp"
#include "stream.hpp"

namespace gradus {

/// Allocates one workspace from another resource; then the n-th allocation of every step gets its planned address in
/// it. A step allocates nothing else, and addresses are the same in every step.
///
/// Requests (bytes, category, source) and frees must come in the planned order. The first deviation throws error: of a
/// request at once, of a free, which cannot throw, at the next request or in check(). Requests then fail until all
/// blocks are freed; the next one begins a new step, as it does after an exception that has freed blocks on its way. A
/// step that ends early in another way must call restart(): the first request of the next step would deviate. For one
/// stream and one thread at a time.
///
/// Several plans (a training step, an evaluation) may share the workspace, one at a time; `use(i)` selects the next.
template <class Stream>
class basic_planned_resource final : public basic_resource<Stream> {
 public:
  /// Throws out_of_memory if the workspace cannot be allocated, and error if a plan's alignment is too small.
  basic_planned_resource(memory_plan step, basic_resource<Stream>& from, Stream& on)
      : basic_planned_resource(std::vector<memory_plan>{std::move(step)}, from, on) {}
  basic_planned_resource(std::vector<memory_plan> plans, basic_resource<Stream>& from, Stream& on)
      : plans_(std::move(plans)), from_(&from), on_(&on) {
    if (plans_.empty()) throw error("planned memory: no plan is given");
    plan_ = &plans_.front();
    for (const memory_plan& p : plans_) {
      if (p.alignment % Stream::alignment != 0)
        throw error("planned memory: the plan aligns blocks to " + std::to_string(p.alignment) +
                    " bytes, and this device needs " + std::to_string(Stream::alignment) +
                    "; trace the step on the device's own meta (cuda_meta for a GPU)");
      workspace_.bytes = std::max(workspace_.bytes, p.bytes);
    }
    workspace_.source = "planned memory";
    try {
      memory_ = static_cast<std::byte*>(from.allocate(workspace_, on));
    } catch (const out_of_memory& e) {
      throw out_of_memory("planned memory: no workspace of " + std::to_string(workspace_.bytes) + " bytes: " + e.what(),
                          e.figures);
    }
    detail::poison_for<Stream>(memory_, workspace_.bytes);
  }
  /// Ends the program with one line on stderr if blocks are in use.
  ~basic_planned_resource() override {
    if (blocks_ > 0) ended_too_early("planned_resource", std::to_string(blocks_) + " blocks");
    detail::unpoison_for<Stream>(memory_, workspace_.bytes);
    from_->deallocate(memory_, workspace_, *on_);
  }

  std::size_t bytes() const { return workspace_.bytes; }  ///< of the workspace
  std::size_t live_blocks() const { return blocks_; }     ///< in use

  /// Throws if the current step has deviated from the plan.
  void check() const {
    if (departed_) throw error(departure());
  }
  /// The next request begins a step of plan number `which`. Throws error if blocks are in use.
  void use(std::size_t which) {
    if (which >= plans_.size())
      throw error("planned memory: no plan " + std::to_string(which) + "; the plans are 0 to " +
                  std::to_string(plans_.size() - 1));
    restart();
    plan_ = &plans_[which];
  }
  /// The next request begins a new step, even if this one is incomplete. Throws error if blocks are in use.
  void restart() {
    if (blocks_ > 0)
      throw error("planned memory: restart() while blocks are in use (" + std::to_string(blocks_) +
                  "); free them first");
    begin_step();
  }

 private:
  void* do_allocate(const memory_request& request, Stream& on) override {
    check_stream(on);
    if (blocks_ == 0 && (departed_ || (interrupted_ && !is_planned(next_, request)))) begin_step();
    check();
    if (!is_planned(next_, request)) {
      depart(request, nullptr);
      check();
    }
    ++requests_;
    ++blocks_;
    std::byte* address = address_of(next_);
    detail::unpoison_for<Stream>(address, request.bytes);
    advance();
    return address;
  }

  void do_deallocate(void* memory, const memory_request& request, Stream& on) noexcept override {
    if (blocks_ == 0) memory_misuse("planned_resource", "is freed, but no block is in use", memory, request);
    if (&on != on_) memory_misuse("planned_resource", "is freed on another stream", memory, request);
    --blocks_;
    interrupted_ = interrupted_ || std::uncaught_exceptions() > 0;
    detail::poison_for<Stream>(memory, request.bytes);
    if (departed_) return;
    if (next_ < plan_->events.size() && !plan_->events[next_].begins && address_of(next_) == memory) advance();
    else depart(request, memory);
  }

  void do_used_on(void*, const memory_request&, Stream& by) override { check_stream(by); }

  void check_stream(const Stream& on) const {
    if (&on != on_) throw error("planned memory: used on a stream other than that of the plan");
  }
  const planned_allocation& allocation(std::size_t event) const {
    return plan_->allocations[plan_->events[event].allocation];
  }
  std::byte* address_of(std::size_t event) const { return memory_ + allocation(event).offset; }
  bool is_planned(std::size_t event, const memory_request& request) const {
    if (event >= plan_->events.size() || !plan_->events[event].begins) return false;
    const planned_allocation& a = allocation(event);
    return a.bytes == request.bytes && a.what == request.what && a.source == request.source;
  }

  void begin_step() {
    next_ = 0;
    requests_ = 0;
    departed_ = false;
    interrupted_ = false;
  }
  void advance() {
    if (++next_ == plan_->events.size()) begin_step();
  }
  // Must not throw: stores what the message needs. `ending` is null for a request.
  void depart(const memory_request& request, const void* ending) noexcept {
    departed_ = true;
    culprit_ = request;
    ending_ = ending;
  }
  std::string departure() const {
    std::string found = describe_request(culprit_.bytes, culprit_.what, culprit_.source);
    if (ending_ == nullptr) found = "request " + std::to_string(requests_ + 1) + " of the step asks " + found;
    else
      found = "after request " + std::to_string(requests_) + " of the step ends request " + number_of_ending() + ", " +
              found;
    return "planned memory: " + found + "; the plan has " + planned_next() +
           " there: make the plan again for this step";
  }
  std::string planned_next() const {
    if (next_ >= plan_->events.size()) return "no request";
    const planned_event& e = plan_->events[next_];
    const planned_allocation& a = allocation(next_);
    const std::string planned = describe_request(a.bytes, a.what, a.source);
    if (!e.begins) return "the end of request " + std::to_string(e.allocation + 1) + ", " + planned + ",";
    return ending_ == nullptr ? planned : "a request for " + planned;
  }
  // The block at an address is the latest that began there.
  std::string number_of_ending() const {
    for (std::size_t event = next_; event-- > 0;)
      if (plan_->events[event].begins && address_of(event) == ending_)
        return std::to_string(plan_->events[event].allocation + 1);
    return "of an earlier step";
  }

  std::vector<memory_plan> plans_;
  const memory_plan* plan_ = nullptr;
  basic_resource<Stream>* from_;
  Stream* on_;
  memory_request workspace_{};
  std::byte* memory_ = nullptr;
  std::size_t next_ = 0;      // the next event of the plan
  std::size_t requests_ = 0;  // served in this step
  std::size_t blocks_ = 0;
  bool departed_ = false;
  bool interrupted_ = false;      // by an exception
  memory_request culprit_{};      // the deviating request, or the wrongly freed block's
  const void* ending_ = nullptr;  // that block
};

/// Planned memory of the CPU.
using planned_resource = basic_planned_resource<stream>;

}  // namespace gradus
