#pragma once
// The seam between the trainer and a model. An architecture is two types: its sizes, which are fixed when a program is
// compiled, and its model. model.hpp has GPT-2's, ../llama/model.hpp Llama's.
//
// The sizes, `config`, are a struct of numbers, among them `layers`, `heads`, `width`, `context` and `vocabulary`, with
//   - `name()`, as model files and reports say it, and `title()`, for a heading,
//   - `named()`: a range of all sizes, each a pair of its flag's name and the number,
//   - `padded_vocabulary()`: rows of the token table,
//   - `unused_parameters()`, if a token does not use all parameters.
//
// The model, `model<X, C>`, has
//   - `device`, `context`, `vocabulary`, `cache<Texts>`, `hidden(ids, cache, count)` and `head(x)`: what
//     gradus::token_window asks of a model that generates text,
//   - `hidden(ids)` and `operator()(ids)`: int32 [B, T] -> [B, T, width] and logits [B, T, padded vocabulary],
//   - `loss(ids, targets)`: the mean cross-entropy; and `losses(ids, targets)`, if training minimises more: that and an
//     auxiliary loss, as a tuple; both with gradus::nn::packed_rows as a third argument, too,
//   - `dropout`, and `regions` of its `blocks`,
//   - `for_each_setting(net, f)`, if it has numbers that are neither sizes nor parameters, such as an epsilon: f(name,
//     number). Files of the model keep them; and `wrong_setting()`, which says what is wrong with one, or "",
//   - `expert_load()`, if it has experts: for each block, the share of each; the log has them.
//
// load_huggingface(net, ctx, folder, after) and save_huggingface(net, folder, tokenizer) are beside the model, where
// argument-dependent lookup finds them.

#include <type_traits>
#include <vector>

#include <gradus/gradus.hpp>

#include "padded_rows.hpp"

namespace gpt {

namespace gr = gradus;

/// The model of sizes of type `Config`: a specialisation has `template <class X, Config C> using model`.
template <class Config>
struct architecture;

/// The model of the sizes C.
template <class X, auto C>
using model_of = typename architecture<std::remove_cvref_t<decltype(C)>>::template model<X, C>;

/// Where a model's parameters are, and their precision: gradus::on<D, P>; with a rank, they are frozen and its linear
/// layers may have adapters, on matrices that are stored as Base says.
template <class D, class P, gr::index_t Rank, gr::nn::base_storage Base = gr::nn::base_storage::stored>
using placed = std::conditional_t<Rank == 0, gr::on<D, P>, gr::nn::adapted<D, P, Rank, Base>>;

/// The parameters that one token does not use.
template <class Config>
constexpr gr::index_t unused_parameters(const Config& sizes) {
  if constexpr (requires { sizes.unused_parameters(); }) return sizes.unused_parameters();
  else return 0;
}

/// Of each block, the load of each expert of mixture_of(block): its share of the tokens' choices in the latest step.
template <class Blocks, class F>
std::vector<std::vector<double>> expert_load(const Blocks& blocks, const F& mixture_of) {
  std::vector<std::vector<double>> all;
  for (const auto& block : blocks) {
    double sum = 0;
    std::vector<double>& load = all.emplace_back();
    for (const float tokens_of_expert : gr::to_host(mixture_of(block).load.value()))
      sum += load.emplace_back(static_cast<double>(tokens_of_expert));
    for (double& share : load) share /= sum;
  }
  return all;
}

/// Calls f(name, number) for each setting of a model; most have none.
template <class Net, class F>
void for_each_setting(Net& net, const F& f) {
  if constexpr (requires { net.for_each_setting(net, f); }) net.for_each_setting(net, f);
}

}  // namespace gpt
