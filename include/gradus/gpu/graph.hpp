#pragma once
// step_graph: a training step as a CUDA graph.

#include <cuda_runtime_api.h>

#include <concepts>
#include <cstddef>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "../autodiff/tape.hpp"
#include "../core/error.hpp"
#include "../core/extent.hpp"
#include "../memory/context.hpp"
#include "../memory/planned_resource.hpp"
#include "device.hpp"
#include "error.hpp"
#include "followed.hpp"
#include "resource.hpp"
#include "stream.hpp"

namespace gradus {

/// Runs a step as one CUDA graph: captures the work that the step submits to the context's stream, and launches it as a
/// whole. Kernels follow one another without gaps, and the host runs ahead.
///
///     gr::step_graph graph{ctx, tape, optimizer};
///     for (...) {
///       upload_the_batch();
///       optimizer.options.lr = schedule(step);
///       graph.run([&] { backward(loss()); optimizer.step(ctx); });
///     }
///
/// The first run is not captured: libraries choose their kernels, and states and scratch memory are allocated. The
/// second run is captured. With the tape and the optimizers of the step, and a context in planned memory, later runs
/// launch the same graph without calling step(): two launches of the host per step. The GPU reads what changes between
/// steps: the tape's count, which random draws depend on; the optimizers' counts and `options`; loss scales; tensors.
/// Everything else, such as seeds, keeps its value of the capture; after changing it, call renew().
///
/// If shapes are bounded, give run() the numbers that extents depend on: `graph.run(step, rows)`. Each combination of
/// numbers has a graph of its own, whose first run is not captured either.
///
/// In any other memory, or without tape and optimizers, each run captures the step and updates the graph: by then other
/// tensors may own the blocks of a pool that the old graph would write.
///
/// step() must not wait for the GPU (item, to_host, printing) nor read host memory (from_host), and its allocations
/// must be satisfied without the driver: by a pool that has the memory, or planned memory.
class step_graph {
 public:
  /// @param counted the tape and the optimizers of the step, which must outlive the graph
  template <class... Counted>
  explicit step_graph(context<cuda>& ctx, Counted&... counted) : ctx_(&ctx) {
    static_assert((0 + ... + is_tape<Counted>) <= 1, "step_graph{ctx, tape, optimizers...}: one tape at most");
    (counted_.push_back(all_of(counted)), ...);
    if (!counted_.empty()) planned_ = dynamic_cast<const planned_memory*>(&ctx.resource());
  }
  step_graph(const step_graph&) = delete;
  step_graph& operator=(const step_graph&) = delete;

  /// Runs step(), or launches its graph for these numbers. Rethrows its exceptions; throws error if it did what a graph
  /// cannot contain.
  template <class Step, std::integral... Extents>
  void run(const Step& step, Extents... numbers) {
    const cuda_kit::device_guard guard(ctx_->stream().device());
    graph& of = graphs_[{static_cast<index_t>(numbers)...}];
    if (!of.warm) {
      step();
      of.warm = true;
    } else if (of.lasts && of.moves == ctx_->stream().moves()) {
      launch_again(of);
    } else {
      launch_captured(of, step);
    }
  }
  /// Makes the next runs capture the step again.
  void renew() {
    for (auto& [numbers, of] : graphs_) of.lasts = false;
  }

  /// Kernels, copies and fills in the last captured graph; 0 before.
  std::size_t nodes() const { return nodes_; }
  /// Number of captures.
  std::size_t captures() const { return captures_; }
  /// How often a graph was instantiated because the step's kernels differed from the previous ones.
  std::size_t made() const { return made_; }

 private:
  using planned_memory = basic_planned_resource<cuda_stream>;
  // The counter of a tape or an optimizer.
  struct counted {
    void* what;
    const void* known_as;  // null: the tape
    std::size_t (*count)(const void*);
    void (*advance)(void*, std::size_t);
  };
  // The graph of a step with certain extents.
  struct graph {
    cudaGraphExec_t launched = nullptr;
    cuda_kit::followed_values followed;
    std::vector<std::size_t> before, by;  // of each counter: the value before the captured step, the step's increment
    std::size_t moves = 0;
    bool warm = false;
    bool lasts = false;  // can be replayed

    graph() = default;
    graph(const graph&) = delete;
    graph& operator=(const graph&) = delete;
    ~graph() { forget(); }
    void forget() {
      if (launched != nullptr) static_cast<void>(cudaGraphExecDestroy(launched));
      launched = nullptr;
    }
  };
  template <class C>
  static constexpr bool is_tape = std::is_same_v<C, tape<cuda>>;
  template <class C>
  static counted all_of(C& c) {
    const auto advance = [](void* p, std::size_t n) { static_cast<C*>(p)->advance(n); };
    if constexpr (is_tape<C>)
      return {&c, nullptr, [](const void* p) -> std::size_t { return static_cast<const C*>(p)->recordings(); },
              advance};
    else
      return {&c, &c.calls(), [](const void* p) -> std::size_t { return static_cast<const C*>(p)->calls(); }, advance};
  }

  void launch_again(graph& of) {
    if (planned_->live_blocks() > 0)
      throw error("step_graph: " + std::to_string(planned_->live_blocks()) +
                  " blocks of the planned memory that the graph writes are in use; destroy their tensors before run()");
    for (std::size_t i = 0; i < counted_.size(); ++i)
      of.followed.set_moved(i, counted_[i].count(counted_[i].what) - of.before[i]);
    of.followed.look_again();
    launch(of);
    for (std::size_t i = 0; i < counted_.size(); ++i) counted_[i].advance(counted_[i].what, of.by[i]);
  }
  template <class Step>
  void launch_captured(graph& of, const Step& step) {
    of.lasts = false;
    of.before.clear();
    if (planned_ != nullptr) {
      std::vector<const void*> known_as;
      for (const counted& c : counted_) {
        c.advance(c.what, 0);  // the step includes parameters' copies in the compute type
        of.before.push_back(c.count(c.what));
        known_as.push_back(c.known_as);
      }
      of.followed.begin(ctx_->stream(), std::move(known_as));
    }
    const cudaGraph_t captured = capture(of, step);
    try {
      take_over(of, captured);
    } catch (...) {
      static_cast<void>(cudaGraphDestroy(captured));
      throw;
    }
    static_cast<void>(cudaGraphDestroy(captured));
    of.by.clear();
    for (std::size_t i = 0; i < of.before.size(); ++i)
      of.by.push_back(counted_[i].count(counted_[i].what) - of.before[i]);
    of.lasts = planned_ != nullptr && planned_->live_blocks() == 0;
    of.moves = ctx_->stream().moves();
    ++captures_;
    launch(of);
  }
  void launch(const graph& of) {
    if (planned_ != nullptr) of.followed.send(*ctx_);
    cuda_kit::check(cudaGraphLaunch(of.launched, ctx_->stream().handle()), "cudaGraphLaunch");
  }
  template <class Step>
  cudaGraph_t capture(graph& of, const Step& step) {
    const cudaStream_t stream = ctx_->stream().handle();
    cuda_kit::check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    cudaGraph_t captured = nullptr;
    ctx_->stream().follow(planned_ == nullptr ? nullptr : &of.followed);
    try {
      step();
    } catch (...) {
      ctx_->stream().follow(nullptr);
      if (cudaStreamEndCapture(stream, &captured) == cudaSuccess) static_cast<void>(cudaGraphDestroy(captured));
      else static_cast<void>(cudaGetLastError());
      throw;
    }
    ctx_->stream().follow(nullptr);
    cuda_kit::check(cudaStreamEndCapture(stream, &captured), "cudaStreamEndCapture");
    return captured;
  }
  void take_over(graph& of, cudaGraph_t captured) {
    cuda_kit::check(cudaGraphGetNodes(captured, nullptr, &nodes_), "cudaGraphGetNodes");
    if (of.launched != nullptr) {
      cudaGraphExecUpdateResultInfo why{};
      if (cudaGraphExecUpdate(of.launched, captured, &why) == cudaSuccess) return;
      static_cast<void>(cudaGetLastError());
      ctx_->stream().synchronize();  // the graph may be running
      of.forget();
    }
    cuda_kit::check(cudaGraphInstantiate(&of.launched, captured, 0), "cudaGraphInstantiate");
    ++made_;
  }

  context<cuda>* ctx_;
  std::vector<counted> counted_;
  const planned_memory* planned_ = nullptr;       // null: each step is captured
  std::map<std::vector<index_t>, graph> graphs_;  // by the numbers that extents depend on
  std::size_t nodes_ = 0, captures_ = 0, made_ = 0;
};

}  // namespace gradus
