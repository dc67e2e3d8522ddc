// Attention by cuDNN, compiled once per program, in the target gradus::cudnn. A build without CMake compiles this file,
// too, with GRADUS_WITH_CUDNN defined for all sources, and links cuDNN.
#define CUDNN_FRONTEND_SKIP_JSON_LIB  // a program may have another version of nlohmann json than cudnn-frontend's
#include "cudnn_attention.hpp"

#include <cudnn_frontend.h>

#include <cmath>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "../core/error.hpp"

namespace gradus::cuda_kit {

namespace fe = cudnn_frontend;

struct cudnn_graphs {
  struct plan {
    std::shared_ptr<fe::graph::Graph> graph;  // null: cuDNN has no kernel
    std::int64_t bytes = 0;
  };
  cudnnHandle_t handle = nullptr;
  std::map<cudnn_problem, plan> plans{};
};

namespace {

/// A deterministic backward pass on an H100 stores all scores: 1.5 GiB for GPT-2's shape at batch 64.
constexpr std::int64_t most_scratch = std::int64_t{2} << 30;

/// The number by which a graph knows an operand.
constexpr std::int64_t name_of(std::size_t operand) { return static_cast<std::int64_t>(operand) + 1; }

/// Sets type, extents and strides of an operand, or of the log-sum-exp.
void lay_out(fe::graph::Tensor_attributes& tensor, const cudnn_problem& p, std::size_t operand) {
  using enum cudnn_problem::operand;
  tensor.set_uid(name_of(operand));
  if (operand == operands) {
    tensor.set_data_type(fe::DataType_t::FLOAT).set_dim({p.batch, p.heads, p.queries, 1});
    tensor.set_stride({p.heads * p.queries, p.queries, 1, 1});
    return;
  }
  const bool of_keys = operand == k || operand == v || operand == dk || operand == dv;
  const cudnn_problem::strides& apart = p.layout[operand];
  tensor.set_data_type(p.in_bf16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF);
  tensor.set_dim({p.batch, p.heads, of_keys ? p.keys : p.queries, p.depth});
  tensor.set_stride({apart.batch, apart.head, apart.time, 1});
}

/// Scale and mask, of both directions.
template <class Attributes>
void set_scores(Attributes& how, const cudnn_problem& p) {
  how.set_attn_scale(1 / std::sqrt(static_cast<float>(p.depth)));
  if (p.causal) how.set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT).set_diagonal_band_right_bound(0);
}

cudnn_graphs::plan build(cudnnHandle_t handle, const cudnn_problem& p) {
  using enum cudnn_problem::operand;
  auto graph = std::make_shared<fe::graph::Graph>();
  graph->set_intermediate_data_type(fe::DataType_t::FLOAT).set_compute_data_type(fe::DataType_t::FLOAT);
  const auto input = [&](std::size_t operand) {
    fe::graph::Tensor_attributes tensor;
    lay_out(tensor, p, operand);
    return graph->tensor(tensor);
  };
  const auto output = [&](const std::shared_ptr<fe::graph::Tensor_attributes>& tensor, std::size_t operand) {
    lay_out(tensor->set_output(true), p, operand);
  };
  if (p.backward) {
    fe::graph::SDPA_backward_attributes how;
    set_scores(how, p);
    how.set_deterministic_algorithm(true);
    const auto made = graph->sdpa_backward(input(q), input(k), input(v), input(y), input(dy), input(operands), how);
    for (std::size_t i = 0; i < made.size(); ++i) output(made[i], dq + i);
  } else {
    fe::graph::SDPA_attributes how;
    set_scores(how, p);
    how.set_generate_stats(p.has_lse);
    const auto made = graph->sdpa(input(q), input(k), input(v), how);
    output(made[0], y);
    if (p.has_lse) output(made[1], operands);
  }
  std::int64_t bytes = 0;
  const bool built = graph->build(handle, {fe::HeurMode_t::A}).is_good() &&
                     graph->get_workspace_size(bytes).is_good() && bytes <= most_scratch;
  return built ? cudnn_graphs::plan{std::move(graph), bytes} : cudnn_graphs::plan{};
}

}  // namespace

cudnn_graphs* cudnn_open(cudaStream_t stream) {
  cudnnHandle_t handle = nullptr;
  if (cudnnCreate(&handle) != CUDNN_STATUS_SUCCESS) return nullptr;
  if (cudnnSetStream(handle, stream) == CUDNN_STATUS_SUCCESS) return new cudnn_graphs{.handle = handle};
  static_cast<void>(cudnnDestroy(handle));
  return nullptr;
}

void cudnn_close(cudnn_graphs* graphs) noexcept {
  graphs->plans.clear();
  static_cast<void>(cudnnDestroy(graphs->handle));
  delete graphs;
}

std::optional<std::size_t> cudnn_scratch(cudnn_graphs& graphs, const cudnn_problem& problem) {
  auto found = graphs.plans.find(problem);
  if (found == graphs.plans.end()) found = graphs.plans.emplace(problem, build(graphs.handle, problem)).first;
  const cudnn_graphs::plan& plan = found->second;
  return plan.graph == nullptr ? std::nullopt : std::optional(static_cast<std::size_t>(plan.bytes));
}

void cudnn_run(cudnn_graphs& graphs, const cudnn_problem& problem, const cudnn_addresses& addresses, void* scratch) {
  std::unordered_map<std::int64_t, void*> named;
  for (std::size_t i = 0; i < addresses.size(); ++i)
    if (addresses[i] != nullptr) named.emplace(name_of(i), addresses[i]);
  fe::error_t status = graphs.plans.at(problem).graph->execute(graphs.handle, named, scratch);
  if (status.is_bad()) throw error("cuDNN's attention: " + status.get_message());
}

}  // namespace gradus::cuda_kit
