#pragma once
// A model of the Llama family beside that of transformers, which recorded what it makes of a folder's weights: see
// ../compare_llama_family.py.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

#include <gradus/generate/token_window.hpp>

#include "gpt/training.hpp"
#include "llama/huggingface.hpp"

namespace gradus_test {

namespace gr = gradus;

template <llama::config C, class Precision = gr::fp32>
struct family_member {
  static constexpr gr::index_t texts = 2;
  using ids = gr::shape<texts, C.context>;

  gr::stream stream;
  gr::host_resource heap;
  gr::context<gr::cpu> ctx{stream, heap};
  llama::model<gr::on<gr::cpu, Precision>, C> net;
  gr::safetensors_file recorded;

  explicit family_member(const std::filesystem::path& folder) : recorded(folder / "recorded.safetensors") {
    load_huggingface(net, ctx, folder);
    without_auxiliary_loss(net);
  }
  // What transformers trains without, too.
  static void without_auxiliary_loss(auto& of) {
    if constexpr (C.experts > 0)
      for (auto& block : of.blocks) block.mlp.options.balance = block.mlp.options.z = 0;
  }

  // The largest difference of a logit, of what transformers has.
  double logits_differ() {
    const auto tokens = recorded.template read<std::int32_t>("tokens");
    const auto wanted = recorded.template read<float>("logits");
    const auto found = net(gr::from_host<std::int32_t, ids>(ctx, tokens.data()));
    double worst = 0;
    for (std::size_t row = 0; row < ids::size; ++row)
      for (std::size_t i = 0; i < C.vocabulary; ++i) {
        const auto ours = static_cast<double>(static_cast<float>(found.data()[row * C.padded_vocabulary() + i]));
        worst = std::max(worst, std::abs(ours - static_cast<double>(wanted[row * C.vocabulary + i])));
      }
    return worst;
  }
  // Writes the gradients of the loss of the first tokens as the tensors of a folder, which must be there.
  void write_gradients(const std::filesystem::path& folder) {
    const auto tokens = recorded.template read<std::int32_t>("tokens");
    const auto targets = recorded.template read<std::int32_t>("targets");
    gr::tape tape{ctx};
    auto loss = net.loss(tape.watch(gr::from_host<std::int32_t, ids>(ctx, tokens.data())),
                         gr::from_host<std::int32_t, ids>(ctx, targets.data()));
    gr::backward(loss);
    llama::model<gr::on<gr::cpu, Precision>, C> gradients;
    gr::init(gradients, ctx, gr::normal_init{});
    std::vector<std::vector<float>> values;
    gr::for_each_param(net, [&](std::string_view, const auto& p) { values.push_back(gr::to_host(p.gradient())); });
    std::size_t i = 0;
    gr::for_each_param(gradients, [&]<class P>(std::string_view, P& p) {
      p.set(gr::from_host<float, typename P::shape>(ctx, values[i++].data()));
    });
    gpt::write_huggingface_tensors(gradients, folder, [](std::string_view name) {
      auto place = llama::huggingface_place<C>(name);
      place.added = 0;
      return place;
    });
  }
  // The number of tokens that are written, from the key-value cache, as transformers writes them.
  std::size_t greedy_tokens_alike() {
    const auto wanted = recorded.template read<std::int32_t>("greedy");
    gr::token_window window(net, ctx);
    window.begin(std::vector<std::int32_t>(wanted.begin(), wanted.begin() + 5));
    for (std::size_t i = 5; i < wanted.size(); ++i) {
      const auto logits = window.logits();
      const auto next = static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin());
      if (next != wanted[i]) return i - 5;
      window.add({next});
    }
    return wanted.size() - 5;
  }
  // The largest difference of a loss, of the recorded steps of training.
  double losses_differ(const std::filesystem::path& folder) {
    gpt::training<gr::cpu, C, texts, std::uint16_t> t(ctx, ctx,
                                                      {.clip = 1, .adamw = {.lr = 1e-3, .weight_decay = 0.1}});
    load_huggingface(t.net, ctx, folder);
    without_auxiliary_loss(t.net);
    const auto batches = recorded.template read<std::int32_t>("batches");  // [steps, texts, context + 1]
    const auto losses = recorded.template read<float>("losses");
    double worst = 0;
    for (std::size_t step = 0; step < losses.size(); ++step) {
      std::vector<std::uint16_t> inputs, targets;
      for (std::size_t text = texts * step; text < texts * (step + 1); ++text)
        for (std::size_t i = 0; i < C.context; ++i) {
          inputs.push_back(static_cast<std::uint16_t>(batches[text * (C.context + 1) + i]));
          targets.push_back(static_cast<std::uint16_t>(batches[text * (C.context + 1) + i + 1]));
        }
      const float loss = t.add_batch(inputs.data(), targets.data());
      worst = std::max(worst, std::abs(static_cast<double>(loss) - static_cast<double>(losses[step])));
      t.update();
    }
    return worst;
  }
};

}  // namespace gradus_test
