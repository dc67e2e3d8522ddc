#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>

#include "../memory/context.hpp"
#include "error.hpp"
#include "resource.hpp"
#include "stream.hpp"

namespace gradus {

/// Runs a step as one CUDA graph: what the step submits to the context's stream is captured, and goes to the GPU in one launch. Launches
/// then follow one another without gaps, and the host runs ahead.
///
/// A step is captured anew each time, and the graph that is there is updated with it: what changes from step to step (the learning rate,
/// the number of the step, random keys, addresses) is as in a step without a graph. The first run is one without: libraries choose
/// their kernels then, and states and scratch memory come into being.
///
///     gr::step_graph graph{ctx};
///     for (...) {
///       upload_the_batch();
///       graph.run([&] { backward(loss()); optimizer.step(ctx); });
///     }
///
/// Within run, nothing may wait for the GPU (item, to_host, printing), nothing may come from host memory (from_host), and memory must come
/// from where it is at hand: a pool that has it, or planned memory.
class step_graph {
 public:
  explicit step_graph(context<cuda>& ctx) : ctx_(&ctx) {}
  step_graph(const step_graph&) = delete;
  step_graph& operator=(const step_graph&) = delete;
  ~step_graph() { forget(); }

  /// Runs step(). Throws what it throws, after which the graph is as before it; and error where it did what a graph cannot hold.
  template <class Step>
  void run(const Step& step) {
    if (!warm_) {
      step();
      warm_ = true;
      return;
    }
    const cudaGraph_t captured = capture(step);
    try {
      take_over(captured);
    } catch (...) {
      static_cast<void>(cudaGraphDestroy(captured));
      throw;
    }
    static_cast<void>(cudaGraphDestroy(captured));
    cuda_kit::check(cudaGraphLaunch(launched_, ctx_->stream().handle()), "cudaGraphLaunch");
  }
  /// Kernels, copies and fills of the last graph; 0 before the second run.
  std::size_t nodes() const { return nodes_; }
  /// How often a graph had to be made anew, because a step was made of other kernels than the one before.
  std::size_t made() const { return made_; }

 private:
  template <class Step>
  cudaGraph_t capture(const Step& step) {
    const cudaStream_t stream = ctx_->stream().handle();
    cuda_kit::check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    cudaGraph_t captured = nullptr;
    try {
      step();
    } catch (...) {
      if (cudaStreamEndCapture(stream, &captured) == cudaSuccess) static_cast<void>(cudaGraphDestroy(captured));
      static_cast<void>(cudaGetLastError());
      throw;
    }
    cuda_kit::check(cudaStreamEndCapture(stream, &captured), "cudaStreamEndCapture");
    return captured;
  }
  void take_over(cudaGraph_t captured) {
    cuda_kit::check(cudaGraphGetNodes(captured, nullptr, &nodes_), "cudaGraphGetNodes");
    if (launched_ != nullptr) {
      cudaGraphExecUpdateResultInfo why{};
      if (cudaGraphExecUpdate(launched_, captured, &why) == cudaSuccess) return;
      static_cast<void>(cudaGetLastError());
      ctx_->stream().synchronize();  // it may be running
      forget();
    }
    cuda_kit::check(cudaGraphInstantiate(&launched_, captured, 0), "cudaGraphInstantiate");
    ++made_;
  }
  void forget() {
    if (launched_ != nullptr) static_cast<void>(cudaGraphExecDestroy(launched_));
    launched_ = nullptr;
  }

  context<cuda>* ctx_;
  cudaGraphExec_t launched_ = nullptr;
  std::size_t nodes_ = 0, made_ = 0;
  bool warm_ = false;
};

}  // namespace gradus
