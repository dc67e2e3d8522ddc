#pragma once
// Attention by cuDNN, for programs that link gradus::cudnn: cudnn_attention.cpp alone includes cuDNN.

#include <cuda_runtime_api.h>

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "../memory/context.hpp"
#include "launch.hpp"
#include "resource.hpp"
#include "stream.hpp"
#include "workspace.hpp"

namespace gradus::cuda_kit {

#if defined(GRADUS_WITH_CUDNN)
inline constexpr bool with_cudnn = true;
#else
inline constexpr bool with_cudnn = false;
#endif

/// One attention problem without addresses: extents, and strides in elements of operands [batch, heads, time, depth],
/// whose last axis is contiguous. Forward has the first four operands and backward all.
struct cudnn_problem {
  enum operand : std::size_t { q, k, v, y, dy, dq, dk, dv, operands };
  struct strides {
    std::int64_t batch, head, time;
    auto operator<=>(const strides&) const = default;
  };
  bool backward, causal;
  bool in_bf16;  ///< else f16
  bool has_lse;  ///< forward writes the natural log-sum-exp of each row of scores, float [batch, heads, queries]
  std::int64_t batch, heads, queries, keys, depth;
  std::array<strides, operands> layout{};

  auto operator<=>(const cudnn_problem&) const = default;
};

/// The addresses of a problem's operands, and last the address of the log-sum-exp.
using cudnn_addresses = std::array<void*, cudnn_problem::operands + 1>;

/// A cuDNN handle of a stream, and the graphs built with it.
struct cudnn_graphs;
/// Null if cuDNN does not work here. The stream must be on the current GPU.
cudnn_graphs* cudnn_open(cudaStream_t stream);
void cudnn_close(cudnn_graphs* graphs) noexcept;
/// The bytes of scratch that a problem takes; empty if cuDNN has no deterministic kernel that takes at most 2 GiB. The
/// first call for a problem builds its graph.
std::optional<std::size_t> cudnn_scratch(cudnn_graphs& graphs, const cudnn_problem& problem);
/// Submits a problem that has a graph to the stream. Throws error if cuDNN fails.
void cudnn_run(cudnn_graphs& graphs, const cudnn_problem& problem, const cudnn_addresses& addresses, void* scratch);

/// cuDNN's attention on the stream of a context.
class cudnn_attention {
 public:
  explicit cudnn_attention(context<cuda>& ctx) {
    const device_guard guard(ctx.stream().device());
    graphs_.reset(cudnn_open(ctx.stream().handle()));
  }
  /// Returns false, without doing anything, if cuDNN has no kernel for the problem.
  bool run(context<cuda>& ctx, const cudnn_problem& problem, const cudnn_addresses& addresses) {
    if (graphs_ == nullptr) return false;
    const device_guard guard(ctx.stream().device());
    const std::optional<std::size_t> bytes = cudnn_scratch(*graphs_, problem);
    if (!bytes) return false;
    cudnn_run(*graphs_, problem, addresses, scratch<std::byte>(ctx, *bytes));
    finish(ctx, "cuDNN's attention");
    return true;
  }

 private:
  struct close {
    void operator()(cudnn_graphs* graphs) const noexcept { cudnn_close(graphs); }
  };
  std::unique_ptr<cudnn_graphs, close> graphs_;
};

}  // namespace gradus::cuda_kit
