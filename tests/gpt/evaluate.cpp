// The loss on a whole text, against the logits of each of its windows.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "../support/message_of.hpp"
#include "../support/seed.hpp"
#include "gpt/model.hpp"
#include "gpt/tools/evaluate.hpp"

namespace gr = gradus;
using gradus_test::message_of;

namespace {

constexpr gpt::config small{2, 3, 39, 13, 61};

struct judged {
  gr::stream stream;
  gr::host_resource heap;
  gr::context<gr::cpu> ctx{stream, heap};
  gpt::model<gr::on<gr::cpu>, small> net;
  judged() { gr::init(net, ctx, gr::normal_init{.seed = gradus_test::fresh_seed(), .stddev = 0.3}); }

  double plain(const std::vector<std::int32_t>& text) {
    double nats = 0;
    for (std::size_t at = 0; at + 1 < text.size(); at += small.context) {
      std::vector<std::int32_t> window(text.begin() + static_cast<std::ptrdiff_t>(at), text.end());
      window.resize(small.context);
      const auto logits = net(gr::from_host<std::int32_t, gr::shape<1, small.context>>(ctx, window.data()));
      for (std::size_t t = 0; t < small.context && at + t + 1 < text.size(); ++t) {
        double sum = 0;
        for (std::size_t i = 0; i < small.vocabulary; ++i) sum += std::exp(static_cast<double>(logits(0u, t, i)));
        nats += std::log(sum) - static_cast<double>(logits(0u, t, static_cast<gr::index_t>(text[at + t + 1])));
      }
    }
    return nats;
  }
};

}  // namespace

TEST_CASE("every token but the first is predicted once, whatever the length of the text and the batch") {
  judged j;
  std::mt19937 engine(gradus_test::fresh_seed());
  for (const std::size_t length : {2u, 3u, 13u, 14u, 15u, 26u, 27u, 40u, 53u, 100u}) {
    std::vector<std::int32_t> text(length);
    for (auto& token : text) token = static_cast<std::int32_t>(engine() % small.vocabulary);
    CAPTURE(length);
    const gpt::evaluation one = gpt::evaluate<1>(j.net, j.ctx, text), three = gpt::evaluate<3>(j.net, j.ctx, text);
    const double wanted = j.plain(text);
    CHECK(one.predicted == length - 1);
    CHECK(three.predicted == length - 1);
    CHECK(one.nats == doctest::Approx(wanted).epsilon(1e-5));
    CHECK(three.nats == doctest::Approx(wanted).epsilon(1e-5));
    CHECK(one.loss() == doctest::Approx(wanted / static_cast<double>(length - 1)).epsilon(1e-5));
    CHECK(one.perplexity() == doctest::Approx(std::exp(one.loss())));
  }
}

TEST_CASE("a text that nothing can be predicted of is refused") {
  judged j;
  CHECK(message_of([&] { gpt::evaluate<1>(j.net, j.ctx, std::vector<std::int32_t>{1}); }) ==
        "evaluate: a text must have two tokens at least, not 1");
  CHECK(message_of([&] {
          gpt::evaluate<1>(j.net, j.ctx, std::vector<std::int32_t>{1, 64});
        }).find("outside 0 .. 60") != std::string::npos);
  j.net.norm.bias.edit().data()[0] = std::nanf("");
  CHECK(message_of([&] {
          gpt::evaluate<1>(j.net, j.ctx, std::vector<std::int32_t>{1, 2});
        }) == "the loss is not finite: the model's parameters are damaged, or its training diverged");
}
