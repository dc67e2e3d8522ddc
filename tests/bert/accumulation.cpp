// Micro-batches of a BERT whose labels are ignored in part, beside one batch of all examples.
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "bert/training.hpp"
#include "without_padding.hpp"

namespace gr = gradus;

namespace {
constexpr bert::config sizes{
    .layers = 1, .heads = 3, .width = 33, .hidden = 70, .positions = 23, .vocabulary = 131, .segments = 2, .labels = 3};
constexpr gr::index_t length = 17;

struct outcome {
  std::vector<double> gradients;
  double loss;
};

template <class V>
V part(const V& all, std::size_t each, std::size_t i) {
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(i * each);
  return V(begin, begin + static_cast<std::ptrdiff_t>(each));
}

// The loss, and the parameters' change by a step of plain SGD: the update's gradients.
template <gr::index_t Batch, int Parts>
outcome accumulated(const bert::host_batch& all) {
  gr::stream stream;
  gr::host_resource heap;
  gr::context<gr::cpu> ctx{stream, heap};
  bert::training<gr::cpu, sizes, Batch, length, gr::fp64, gr::sgd> training(
      ctx, ctx, {.clip = 0, .accumulate = Parts, .seed = 5, .adamw = {.lr = 1, .weight_decay = 0}});
  const auto weights = [&] {
    std::vector<double> result;
    gr::visit_params(training.net,
                     [&](auto& p) { result.insert(result.end(), p.value().data(), p.value().data() + p.size()); });
    return result;
  };
  const auto before = weights();
  for (int i = 0; i < Parts; ++i) {
    const auto n = static_cast<std::size_t>(i);
    training.load(i, without_padding({part(all.tokens, Batch * length, n), part(all.segments, Batch * length, n),
                                      part(all.lengths, Batch, n), part(all.labels, Batch, n)}));
    training.backward(i);
  }
  outcome result{weights(), training.send_loss().value()};
  training.update();
  const auto after = weights();
  for (std::size_t i = 0; i < after.size(); ++i) result.gradients[i] = before[i] - after[i];
  return result;
}
}  // namespace

TEST_CASE("micro-batches with different numbers of labels have the loss and gradients of one batch") {
  bert::host_batch all;
  for (std::size_t i = 0; i < 8 * length; ++i) {
    const auto w = gr::random_key{.seed = 11}.words(i);
    all.tokens.push_back(static_cast<std::int32_t>(w[0] % 131));
    all.segments.push_back(w[1] % 2);
    if (i >= 8) continue;
    all.lengths.push_back(static_cast<std::int32_t>(1 + w[2] % length));
    all.labels.push_back(static_cast<std::int32_t>(w[3] % 3));
  }
  const auto check = [&] {
    const auto one = accumulated<8, 1>(all), four = accumulated<2, 4>(all);
    CHECK(four.loss == doctest::Approx(one.loss).epsilon(1e-6));
    double off = 0, norm = 0;
    for (std::size_t i = 0; i < one.gradients.size(); ++i) {
      off += std::pow(four.gradients[i] - one.gradients[i], 2);
      norm += std::pow(one.gradients[i], 2);
    }
    CHECK(std::sqrt(off) <= 1e-6 * std::sqrt(norm));
  };
  check();
  all.labels[1] = all.labels[2] = all.labels[3] = -1;  // the second micro-batch has no label
  check();
  all.labels.assign(8, -1);
  check();
}
