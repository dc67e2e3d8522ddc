// A GPT whose blocks have mixtures of experts: its training, its losses, and text that it writes from a cache.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include <gradus/generate/token_window.hpp>

#include "../support/message_of.hpp"
#include "../support/seed.hpp"
#include "gpt/tools/huggingface.hpp"
#include "gpt/training.hpp"

namespace gr = gradus;
using gradus_test::fresh_seed;
using gradus_test::message_of;

namespace {

constexpr gpt::config sizes{
    .layers = 2, .heads = 2, .width = 32, .context = 16, .vocabulary = 256, .experts = 4, .experts_per_token = 2};

struct place {
  gr::stream stream;
  gr::host_resource heap;
  gr::pool_resource pool{heap};
  gr::context<gr::cpu> ctx{stream, pool};
};

std::vector<std::uint8_t> some_text() {
  std::vector<std::uint8_t> text;
  for (int i = 0; i < 4 * 16 + 1; ++i) text.push_back(static_cast<std::uint8_t>(97 + i * i % 11));
  return text;
}

}  // namespace

TEST_CASE("a GPT with experts trains on its loss and theirs, and reports its own; checkpointed, it has the same bits") {
  const auto trained = [](const gr::region_schedule& regions) {
    place at;
    gpt::training<gr::cpu, sizes, 4> t(at.ctx, at.ctx, {.dropout = 0.1, .adamw = {.lr = 1e-2}, .regions = regions});
    const auto text = some_text();
    std::vector<float> all;
    for (int step = 0; step < 12; ++step) {
      t.load(0, text.data(), text.data() + 1);
      t.backward(0);
      all.push_back(static_cast<float>(t.send_loss().value()));
      t.update();
    }
    for (const auto& block : t.net.expert_load()) {
      CHECK(block.size() == 4);
      double sum = 0;
      for (const double share : block) sum += share;
      CHECK(sum == doctest::Approx(1));
      for (const double share : block) all.push_back(static_cast<float>(share));
    }
    const float before = t.evaluate(text.data(), text.data() + 1);
    CHECK(t.net.expert_load().front().front() == static_cast<double>(all[12]));  // validation does not count
    all.push_back(before);
    return all;
  };
  const auto plain = trained({});
  CHECK(plain[11] < plain[0]);
  CHECK(trained(gr::region_schedule::every_block(2)) == plain);
}

TEST_CASE("the loss of a GPT with experts is the same with and without the auxiliary loss beside it") {
  place at;
  gpt::model<gr::on<gr::cpu>, sizes> net;
  gr::init(net, at.ctx, gr::normal_init{.seed = fresh_seed()});
  const auto text = some_text();
  const auto ids = gr::from_host<std::uint8_t, gr::shape<4, 16>>(at.ctx, text.data());
  const auto targets = gr::from_host<std::uint8_t, gr::shape<4, 16>>(at.ctx, text.data() + 1);
  const auto [loss, auxiliary] = net.losses(ids, targets);
  CHECK(gr::item(loss) == gr::item(net.loss(ids, targets)));
  CHECK(gr::item(auxiliary) >= 2 * 0.01f);  // of two blocks; equal loads have the least
}

TEST_CASE("a GPT with experts writes from its cache what a pass over the text says") {
  using model = gpt::model<gr::on<gr::cpu>, sizes>;
  place at;
  model net;
  gr::init(net, at.ctx, gr::normal_init{.seed = fresh_seed(), .stddev = 0.3});
  gr::token_window<model> window(net, at.ctx);
  std::vector<std::int32_t> seen{7, 200, 3};
  window.begin(seen);
  for (std::int32_t i = 0; i < 12; ++i) {
    std::vector<std::int32_t> padded(seen);
    padded.resize(sizes.context);
    const auto all = net(gr::from_host<std::int32_t, gr::shape<1, sizes.context>>(at.ctx, padded.data()));
    CHECK(std::ranges::equal(window.logits(), std::span(all.data() + (seen.size() - 1) * 256, 256)));
    seen.push_back(31 * i % 256);
    window.add({seen.back()});
  }
}

TEST_CASE("a GPT with experts is no GPT-2 of Hugging Face's, which is said in one line") {
  place at;
  gpt::model<gr::on<gr::cpu>, sizes> net;
  gr::init(net, at.ctx, gr::normal_init{});
  const std::string said = "a GPT with 4 experts cannot be converted: Hugging Face's GPT-2 has none";
  CHECK(message_of([&] { gpt::save_huggingface(net, "/nowhere"); }) == said);
  CHECK(message_of([&] { gpt::load_huggingface(net, at.ctx, "/nowhere"); }) == said);
}
