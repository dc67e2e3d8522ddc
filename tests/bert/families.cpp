// The families of encoders beside transformers': logits or sentence embeddings, gradients, training, and folders that
// are written. tests/parity/make_encoder_fixtures.py made the folders; a row of `rows` is one.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "../support/message_of.hpp"
#include "../support/scratch_folder.hpp"
#include "bert/huggingface.hpp"
#include "bert/training.hpp"
#include "without_padding.hpp"

namespace gr = gradus;
namespace fs = std::filesystem;
using bert::family, bert::task, gr::nn::activation;

namespace {

constexpr gr::index_t batch = 4, length = 9, steps = 20;

struct row {
  const char* folder;
  bert::config sizes;
  bert::settings settings;
};
constexpr bert::config with(bert::config c, auto change) {
  change(c);
  return c;
}
constexpr bert::config small{
    .layers = 2, .heads = 3, .width = 12, .hidden = 22, .positions = 17, .vocabulary = 41, .segments = 2};
constexpr row rows[] = {
    {"roberta",
     with(small, [](auto& c) { c.family = family::roberta, c.segments = 1, c.labels = 3, c.first_position = 2; }),
     {.epsilon = 1e-5}},
    {"xlm_roberta",
     with(small,
          [](auto& c) {
            c.family = family::xlm_roberta, c.segments = 1, c.task = task::regression, c.first_position = 4,
            c.activation = activation::silu;
          }),
     {.epsilon = 3e-3}},
    {"distilbert",
     {.layers = 2,
      .heads = 2,
      .width = 14,
      .hidden = 18,
      .positions = 9,
      .vocabulary = 41,
      .segments = 0,
      .labels = 2,
      .family = family::distilbert,
      .activation = activation::relu},
     {}},
    {"albert",
     with(small,
          [](auto& c) { c.family = family::albert, c.labels = 3, c.embedding = 7, c.activation = activation::gelu; }),
     {}},
    {"mean", with(small, [](auto& c) { c.task = task::cosine; }), {}},
    {"cls",
     with(
         small,
         [](auto& c) { c.family = family::roberta, c.segments = 1, c.task = task::contrastive, c.first_position = 2; }),
     {.pooling = bert::pooling::cls}},
};

// Calls f.template operator()<row>() for each of them.
template <class F>
void for_each_row(const F& f) {
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (f.template operator()<I>(), ...);
  }(std::make_index_sequence<std::size(rows)>{});
}

fs::path folder_of(std::size_t row) { return fs::path(GRADUS_TEST_DATA) / "encoders" / rows[row].folder; }

bert::host_batch recorded_batch(gr::safetensors_file& file, gr::index_t step) {
  const auto part = [&]<class T>(const char* name, T) {
    if (!file.has(name)) return std::vector<T>();
    const auto all = file.read<T>(name);
    const auto each = static_cast<std::ptrdiff_t>(all.size() / steps);
    const auto at = all.begin() + static_cast<std::ptrdiff_t>(step) * each;
    return std::vector<T>(at, at + each);
  };
  return without_padding({part("tokens", std::int32_t{}), part("segments", std::uint8_t{}),
                          part("lengths", std::int32_t{}), part("labels", std::int32_t{}), part("scores", float{})});
}

template <std::size_t Row, class Precision = gr::fp32>
struct loaded {
  gr::stream stream;
  gr::host_resource heap;
  gr::context<gr::cpu> ctx{stream, heap};
  gr::safetensors_file recorded{folder_of(Row) / "steps.safetensors"};
  bert::training<gr::cpu, rows[Row].sizes, batch, length, Precision> training{
      ctx, ctx, {.adamw = {.lr = 1e-3, .beta2 = 0.999, .weight_decay = 0.01}}};

  explicit loaded(const fs::path& folder = folder_of(Row)) {
    const bool has_classifier = bert::load_huggingface(training.net, ctx, folder);
    CHECK(has_classifier == !rows[Row].sizes.embeds());
    training.net.pooling = rows[Row].settings.pooling;  // of which transformers' folders say nothing
  }
  double largest_difference() {
    const auto wanted = recorded.template read<float>("output");
    const auto found = training.evaluate(recorded_batch(recorded, 0));
    REQUIRE(found.size == wanted.size());
    double worst = 0;
    for (std::size_t i = 0; i < wanted.size(); ++i)
      worst = std::max(
          worst, std::abs(static_cast<double>(static_cast<float>(found.data()[i])) - static_cast<double>(wanted[i])));
    return worst;
  }
};

// A batch of sequences from 2 tokens to the longest, and of labels.
bert::host_batch random_batch(const bert::config& c) {
  bert::host_batch b;
  for (gr::index_t s = 0; s < c.texts() * batch; ++s) {
    const gr::random_key key{.seed = 7, .step = static_cast<std::uint32_t>(s)};
    b.lengths.push_back(s < 2 ? static_cast<std::int32_t>(s == 0 ? 2 : length)
                              : static_cast<std::int32_t>(2 + key.words(99)[0] % (length - 1)));
    for (std::int32_t t = 0; t < b.lengths.back(); ++t) {
      const auto w = key.words(static_cast<std::uint64_t>(t));
      b.tokens.push_back(static_cast<std::int32_t>(w[0] % c.vocabulary));
      b.segments.push_back(static_cast<std::uint8_t>(w[1] % std::max<gr::index_t>(c.segments, 1)));
    }
    if (s >= batch) continue;
    b.labels.push_back(static_cast<std::int32_t>(c.embeds() ? s : s % c.labels));
    b.scores.push_back(static_cast<float>(s) / 3 - 0.5f);
  }
  return b;
}

// The gradients of all parameters, which clears them.
std::vector<float> take_gradients(auto& net) {
  std::vector<float> all;
  gr::visit_params(net, [&](auto& p) {
    REQUIRE(p.has_gradient());
    all.insert(all.end(), p.gradient_data(), p.gradient_data() + p.size());
    p.slot().clear();
  });
  return all;
}

// What load_huggingface() says of a copy of a folder with another text in a file of it.
template <std::size_t Row>
std::string refusal(const std::string& from, const std::string& to) {
  const gradus_test::scratch_folder place;
  fs::copy(folder_of(Row), place.path, fs::copy_options::recursive);
  std::string text = gr::read_text(place.path / "config.json");
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  text.replace(at, from.size(), to);
  std::ofstream(place.path / "config.json") << text;
  loaded<Row> l;
  const std::string said = gradus_test::message_of([&] { bert::load_huggingface(l.training.net, l.ctx, place.path); });
  return said.substr(std::min(said.size(), said.find(": ") + 2));
}

}  // namespace

TEST_CASE("an encoder of each family has the logits or sentence embeddings of transformers'") {
  for_each_row([]<std::size_t Row> {
    CAPTURE(rows[Row].folder);
    loaded<Row> l;
    CHECK(l.training.net.settings().epsilon == rows[Row].settings.epsilon);
    CHECK(l.largest_difference() < 1e-5);
    CHECK(loaded<Row, gr::bf16_mixed>().largest_difference() < 2e-2);
  });
}

TEST_CASE("an encoder of each family has the gradients of transformers'") {
  for_each_row([]<std::size_t Row> {
    CAPTURE(rows[Row].folder);
    loaded<Row> l;
    const bert::family_files files = bert::files_of(rows[Row].sizes.family);
    l.training.load(0, recorded_batch(l.recorded, 0));
    l.training.backward(0);
    double largest = 0, worst = 0;
    gr::for_each_param(l.training.net, [&]<class P>(std::string_view name, const P& p) {
      CAPTURE(name);
      auto wanted =
          l.recorded.template read<float>("gradient." + bert::tensor_name(files, name, !rows[Row].sizes.embeds()));
      if (bert::is_transposed(name)) wanted = gpt::transposed<float>(wanted, P::shape::extents.back());
      REQUIRE(p.has_gradient());
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        largest = std::max(largest, std::abs(static_cast<double>(wanted[i])));
        worst = std::max(worst, std::abs(static_cast<double>(p.gradient_data()[i]) - static_cast<double>(wanted[i])));
      }
    });
    CHECK(worst <= 2e-6 * largest);
  });
}

TEST_CASE("a batch in one row has the loss and gradients of its sequences, each computed alone") {
  for_each_row([]<std::size_t Row> {
    for (const bert::pooling pooling : {bert::pooling::mean, bert::pooling::cls}) {
      CAPTURE(rows[Row].folder);
      constexpr bert::config sizes = rows[Row].sizes;
      constexpr gr::index_t sequences = sizes.texts() * batch;
      const bert::host_batch b = random_batch(sizes);
      loaded<Row> l;
      auto& net = l.training.net;
      net.pooling = pooling;
      l.training.load(0, b);
      l.training.backward(0);
      const double packed_loss = l.training.send_loss().value();
      const std::vector<float> packed = take_gradients(net);

      std::vector<bert::loaded_sequences<gr::cpu, sizes, 1, length>> alone;
      for (gr::index_t s = 0, t = 0; s < sequences; t += static_cast<gr::index_t>(b.lengths[s++])) {
        const auto part = [&](const auto& all) {
          const auto begin = all.begin() + static_cast<std::ptrdiff_t>(t);
          return std::vector(begin, begin + b.lengths[s]);
        };
        alone.emplace_back(l.ctx).load({part(b.tokens), part(b.segments), {b.lengths[s]}, {}});
      }
      gr::tape<gr::cpu> tape(l.ctx);
      const auto outputs = [&]<std::size_t... S>(std::index_sequence<S...>) {
        return gr::concat<0>(net.outputs(tape.watch(alone[S].tokens), alone[S])...);
      }(std::make_index_sequence<sequences>{});
      using label = std::conditional_t<sizes.scores(), float, std::int32_t>;
      const auto labels = [&] {
        if constexpr (sizes.scores()) return b.scores;
        else return b.labels;
      }();
      const auto loss = net.loss(outputs, gr::from_host<label, gr::shape<batch>>(l.ctx, labels.data()));
      CHECK(packed_loss == doctest::Approx(static_cast<double>(gr::item(loss.value()))).epsilon(2e-6));
      gr::backward(loss);
      const std::vector<float> each = take_gradients(net);
      double largest = 0, worst = 0;
      for (std::size_t i = 0; i < each.size(); ++i) {
        largest = std::max(largest, std::abs(static_cast<double>(each[i])));
        worst = std::max(worst, std::abs(static_cast<double>(each[i]) - static_cast<double>(packed[i])));
      }
      CHECK(largest > 1e-3);
      CHECK(worst <= 2e-6 * largest);
    }
  });
}

TEST_CASE("20 training steps of each family have the losses of transformers'") {
  for_each_row([]<std::size_t Row> {
    CAPTURE(rows[Row].folder);
    loaded<Row> l;
    const auto wanted = l.recorded.template read<float>("losses");
    for (gr::index_t step = 0; step < steps; ++step) {
      CAPTURE(step);
      l.training.load(0, recorded_batch(l.recorded, step));
      l.training.step();
      CHECK(std::abs(l.training.send_loss().value() - static_cast<double>(wanted[step])) < 1e-5);
    }
  });
}

TEST_CASE("a folder of each family that is written has the tensors that were read, and describes the same model") {
  for_each_row([]<std::size_t Row> {
    CAPTURE(rows[Row].folder);
    const gradus_test::scratch_folder place;
    loaded<Row> l;
    l.training.net.normalized = true;
    bert::save_huggingface(l.training.net, place.path);
    gr::safetensors_file wanted(folder_of(Row) / "model.safetensors"), found(place.path / "model.safetensors");
    for (const auto& one : found.entries()) {
      const auto& name = one.first;
      CAPTURE(name);
      REQUIRE(wanted.has(name));
      CHECK(wanted.entry(name).shape == one.second.shape);
      CHECK(wanted.read<float>(name) == found.read<float>(name));
    }
    const bert::description d = bert::describe(place.path, rows[Row].sizes.embeds());
    CHECK(d.settings.epsilon == rows[Row].settings.epsilon);
    CHECK(d.settings.pooling == rows[Row].settings.pooling);
    CHECK(d.settings.normalized == rows[Row].sizes.embeds());
    CHECK(d.has_head == !rows[Row].sizes.embeds());
    if (d.has_head) {
      CHECK(d.sizes.labels == rows[Row].sizes.labels);
      CHECK(d.sizes.task == rows[Row].sizes.task);
      CHECK(loaded<Row>(place.path).largest_difference() == l.largest_difference());
    }
  });
}

TEST_CASE("a setting that is not known, or could change a number, is refused by its name") {
  CHECK(refusal<0>(R"("use_cache")", R"("use_rope")") ==
        "'use_rope', which is true, is not known, and could change what is computed");
  CHECK(refusal<0>(R"("use_cache": true)", R"("auto_map": {})") ==
        "'auto_map' names code that comes with the model, and this program runs none; if transformers reads the model "
        "without it, remove the key");
  CHECK(refusal<0>(R"("use_cache": true)", R"("quantization_config": {})") ==
        "'quantization_config': its weights are quantised; take the model in bfloat16, float16 or float32");
  CHECK(refusal<0>(R"("gelu")", R"("mish")") == "'hidden_act' is \"mish\"; gelu, gelu_new, relu and silu are known");
  CHECK(refusal<0>(R"("pad_token_id": 1)", R"("pad_token_id": 2)") ==
        "'pad_token_id' is 2, and this program was compiled for 1");
  CHECK(refusal<0>(R"("layer_norm_eps": 1e-05)", R"("layer_norm_eps": -1)") ==
        "'layer_norm_eps' is -1 where 0 to 1 is possible");
  CHECK(refusal<0>(R"("use_cache": true)", R"("problem_type": "multi_label_classification")") ==
        "'problem_type' is \"multi_label_classification\"; single_label_classification and regression are known");
  CHECK(refusal<0>(R"("use_cache": true)", R"("problem_type": "regression")") ==
        "'problem_type' is \"regression\" of 3 numbers, and one is possible");
  CHECK(refusal<2>(R"("dim": 14)", R"("dim": "14")") == "'dim' is \"14\" where a whole number from 1 on is needed");
  CHECK(refusal<3>(R"("num_hidden_groups": 1)", R"("num_hidden_groups": 2)") ==
        "'num_hidden_groups' is 2 where 1 is needed");
}

TEST_CASE("the modules of sentence-transformers say how an embedding is made, or are refused by their names") {
  const gradus_test::scratch_folder place;
  fs::copy(folder_of(4), place.path, fs::copy_options::recursive);
  fs::create_directories(place.path / "1_Pooling");
  const auto settings_of = [&](const std::string& modules, const std::string& pooling) {
    std::ofstream(place.path / "modules.json") << modules;
    std::ofstream(place.path / "1_Pooling" / "config.json") << pooling;
    return bert::describe(place.path, true).settings;
  };
  const auto refusal_of = [&](const std::string& modules, const std::string& pooling) {
    const std::string said = gradus_test::message_of([&] { settings_of(modules, pooling); });
    return said.substr(std::min(said.size(), said.find(": ") + 2));
  };
  const std::string pooling_module = R"({"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"})";
  const std::string mean = R"({"word_embedding_dimension": 12, "pooling_mode_cls_token": false,
                               "pooling_mode_mean_tokens": true})";
  CHECK(!settings_of("[" + pooling_module + "]", mean).normalized);
  const auto all = settings_of("[" + pooling_module + R"(, {"type": "sentence_transformers.models.Normalize"}])",
                               R"({"pooling_mode": "cls"})");
  CHECK(all.normalized);
  CHECK(all.pooling == bert::pooling::cls);
  CHECK(refusal_of("[" + pooling_module + "]", R"({"pooling_mode_max_tokens": true})") ==
        "must have pooling_mode_mean_tokens or pooling_mode_cls_token, and no other mode");
  CHECK(refusal_of("[" + pooling_module + "]", R"({"half": 1})") == "'half' is 1, a setting that is not known");
  CHECK(refusal_of(R"([{"type": "sentence_transformers.models.Dense"}])", mean) ==
        "the module 'Dense' is not known; Transformer, Pooling and Normalize are");
  CHECK(refusal_of("{}", mean) == "is not a JSON array");
}
