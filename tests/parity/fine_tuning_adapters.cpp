// Adapters beside Hugging Face's PEFT, which recorded the losses of training some: make_fine_tuning_fixtures.py.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "../support/message_of.hpp"
#include "../support/scratch_folder.hpp"
#include "gpt/tools/peft.hpp"
#include "gpt/training.hpp"
#include "small_models.hpp"

namespace gr = gradus;
namespace fs = std::filesystem;

namespace {

const fs::path data = GRADUS_TEST_DATA;

using gradus_test::small_gpt2, gradus_test::small_llama;

constexpr gr::index_t texts = 2;

template <auto C, gr::index_t Rank>
using net_of = gpt::model_of<gpt::placed<gr::cpu, gr::fp32, Rank>, C>;

struct workplace {
  gr::stream stream;
  gr::host_resource heap;
  gr::context<gr::cpu> ctx{stream, heap};
};

template <auto C>
auto upload(gr::context<gr::cpu>& ctx, const std::vector<std::int32_t>& batches, std::size_t step, std::size_t shift) {
  std::vector<std::int32_t> tokens;
  for (std::size_t text = texts * step; text < texts * (step + 1); ++text)
    for (std::size_t i = 0; i < C.context; ++i) tokens.push_back(batches[text * (C.context + 1) + i + shift]);
  return gr::from_host<std::int32_t, gr::shape<texts, C.context>>(ctx, tokens.data());
}

template <auto C>
double logits_differ(const auto& net, gr::context<gr::cpu>& ctx, gr::safetensors_file& recorded) {
  const auto wanted = recorded.template read<float>("logits");
  const auto found = net(upload<C>(ctx, recorded.template read<std::int32_t>("batches"), 0, 0));
  double worst = 0;
  for (std::size_t row = 0; row < texts * C.context; ++row)
    for (std::size_t i = 0; i < C.vocabulary; ++i)
      worst = std::max(worst, std::abs(static_cast<double>(found.data()[row * C.padded_vocabulary() + i]) -
                                       static_cast<double>(wanted[row * C.vocabulary + i])));
  return worst;
}

template <auto C, gr::index_t Rank>
void check(const std::string& name, const fs::path& base) {
  const fs::path folder = data / "fine_tuning" / name;
  workplace at;
  gr::safetensors_file recorded(folder / "recorded.safetensors");
  const auto batches = recorded.read<std::int32_t>("batches");
  const auto losses = recorded.read<float>("losses");

  net_of<C, Rank> net;
  gr::init(net, at.ctx, gr::normal_init{});
  load_huggingface(net, at.ctx, data / base);
  gpt::load_adapters(net, at.ctx, folder, Rank);
  gr::adamw optimizer{net, {.lr = 1e-2, .weight_decay = 0.1}};
  gr::tape tape{at.ctx};
  double worst = 0;
  for (std::size_t step = 0; step < losses.size(); ++step) {
    const auto inputs = upload<C>(at.ctx, batches, step, 0), targets = upload<C>(at.ctx, batches, step, 1);
    auto loss = net.loss(tape.watch(inputs), targets);
    worst = std::max(worst, std::abs(static_cast<double>(gr::item(loss.value())) - static_cast<double>(losses[step])));
    gr::backward(loss);
    optimizer.clip(at.ctx, 1.0);
    optimizer.step(at.ctx);
  }
  CHECK(worst < 1e-4);
  CHECK(logits_differ<C>(net, at.ctx, recorded) < 1e-4);

  // A folder that is written holds the same adapters, bit for bit.
  gradus_test::scratch_folder scratch;
  const fs::path out = scratch.path;
  gpt::save_peft(net, out, base.string());
  net_of<C, Rank> again;
  gr::init(again, at.ctx, gr::normal_init{});
  load_huggingface(again, at.ctx, data / base);
  gpt::load_adapters(again, at.ctx, out, Rank);
  const auto tokens = upload<C>(at.ctx, batches, 3, 0);
  CHECK(gr::to_host(again(tokens)) == gr::to_host(net(tokens)));
  CHECK(logits_differ<C>(again, at.ctx, recorded) < 1e-4);

  // Merged, they give the same logits.
  gpt::merge_adapters(again);
  net_of<C, 0> merged;
  gr::init(merged, at.ctx, gr::normal_init{});
  gr::copy(again, merged);
  if constexpr (requires { merged.settings; }) merged.settings = again.settings;
  const auto a = gr::to_host(merged(tokens)), b = gr::to_host(net(tokens));
  double differ = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    differ = std::max(differ, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  CHECK(differ < 1e-5);
}

}  // namespace

TEST_CASE("adapters of a Llama are trained as PEFT does, and exchanged with it") {
  check<small_llama, 3>("llama", "llama_family/qwen2");
}

TEST_CASE("adapters of a GPT-2 are trained as PEFT does, with rsLoRA, and exchanged with it") {
  check<small_gpt2, 2>("gpt2", "gpt2");
}

TEST_CASE("adapters of another model, rank or kind are refused in one line") {
  workplace at;
  const auto refusal = [&]<auto C, gr::index_t Rank>(const fs::path& folder) {
    net_of<C, Rank> net;
    gr::init(net, at.ctx, gr::normal_init{});
    return gradus_test::message_of([&] { gpt::load_adapters(net, at.ctx, folder, Rank); });
  };
  const fs::path llama = data / "fine_tuning" / "llama";
  CHECK(refusal.operator()<small_gpt2, 3>(llama) ==
        (llama / "adapter_model.safetensors").string() +
            ": 'base_model.model.model.layers.0.mlp.down_proj.lora_A.weight' is no adapter of a linear layer of this "
            "model; it may belong to another one");
  CHECK(refusal.operator()<small_llama, 4>(llama) ==
        (llama / "adapter_config.json").string() + ": 'r' is 3, and this program was compiled for 4");
  constexpr llama::config wider = [] {
    llama::config c = small_llama;
    c.hidden = 20;
    return c;
  }();
  CHECK(refusal.operator()<wider, 3>(llama).find("lora_") != std::string::npos);

  gradus_test::scratch_folder scratch;
  fs::copy(llama, scratch.path, fs::copy_options::overwrite_existing);
  std::string text = gr::read_text(llama / "adapter_config.json");
  text.replace(text.find("\"use_dora\": false"), 17, "\"use_dora\": true");
  gr::write_file_atomically(scratch.path / "adapter_config.json", text);
  CHECK(refusal.operator()<small_llama, 3>(scratch.path) ==
        (scratch.path / "adapter_config.json").string() + ": 'use_dora' is true, which this program does not know");
}
