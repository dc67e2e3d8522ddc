#pragma once
// Adapters of a model (--lora) in the files of runs, which have the adapters alone, and say where the model is that
// they belong to. tools/peft.hpp has the format of Hugging Face's PEFT.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <gradus/io/crc32c.hpp>
#include <gradus/nn/adapter.hpp>
#include <gradus/run/checkpoint.hpp>

namespace gpt {

namespace gr = gradus;

/// The layer of an adapter's parameter: "blocks.0.mlp.up" of "blocks.0.mlp.up.adapter.a"; empty for other parameters.
inline std::string adapted_layer(std::string_view name) {
  const auto at = name.find(".adapter.");
  return at == name.npos ? "" : std::string(name.substr(0, at));
}

/// A number that tells the frozen parameters of a model from others, whatever the type that they are stored in: of the
/// first values of each.
template <class Net>
std::uint32_t fingerprint_of_base(const Net& net) {
  gr::crc32c sum;
  gr::visit_params(net, [&]<class P>(const P& p) {
    if constexpr (!P::trains) {
      const auto values = p.value().values();
      for (std::size_t i = 0; i < std::min<std::size_t>(values.size(), 64); ++i) {
        const auto rounded = static_cast<gr::bf16>(static_cast<float>(values[i]));
        sum.add(std::as_bytes(std::span(&rounded, 1)));
      }
    }
  });
  return sum.value();
}

/// Adds to a file's metadata what adapters need: their settings, and the model that they belong to.
template <class Net>
void add_adapter_notes(const Net& net, const std::string& base, std::uint32_t fingerprint, gr::run_metadata& to) {
  gr::nn::adapter_settings settings;
  gr::index_t rank = 0;
  gr::nn::for_each_adapter_slot(net, [&](std::string_view, const auto& slot) {
    if (slot) settings = slot->settings, rank = slot->rank;
  });
  to.set("lora", rank);
  to.set("lora_alpha", settings.alpha);
  to.set("lora_dropout", settings.dropout);
  to.set("rslora", static_cast<int>(settings.rank_stabilized));
  to.set("base", std::string_view(base));
  to.set("base_fingerprint", fingerprint);
}

}  // namespace gpt
