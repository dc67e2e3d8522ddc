// C functions of a model: what they refuse, that steps allocate nothing, and that a loaded handle goes on.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <gradus/gradus.hpp>
#include <gradus/interop/c_api.hpp>
#include <string>
#include <type_traits>
#include <vector>

#include "../../support/counted_heap.hpp"
#include "../../support/scratch_folder.hpp"

namespace gr = gradus;

namespace {

constexpr gr::index_t most = 9, width = 5, classes = 3;

// x; its gradient is an error if an element of x is above a million.
constexpr auto small_only(const auto& x) {
  return gr::custom_op([](const auto& v) { return v; },
                       [](const auto& gradient, const auto& /*output*/, const auto& v) {
                         if constexpr (std::is_same_v<typename std::remove_cvref_t<decltype(v)>::device, gr::cpu>)
                           for (gr::index_t i = 0; i < v.extents().size; ++i)
                             if (v.data()[i] > 1e6f) throw gr::error("an element is too large");
                         return gradient;
                       },
                       x);
}

// Dropout draws by seed and step; the optimizer of `other` has one state, not two.
template <class D>
struct model {
  gr::nn::linear<gr::on<D>, width, 7> first;
  gr::nn::linear<gr::on<D>, 7, classes> last;
  GRADUS_MEMBERS(first, last)

  constexpr auto operator()(const auto& x) const { return last(gr::dropout(small_only(gr::gelu(first(x))), 0.25)); }
};
template <class D, class Optimizer, gr::index_t Batch>
struct training_by {
  using input = gr::tensor<float, gr::shape<Batch, width>, D>;
  using target = gr::tensor<std::int32_t, gr::shape<Batch>, D>;
  ::model<D> model;
  Optimizer optimizer{model};

  constexpr void init(gr::context<D>& ctx, std::uint64_t seed) { gr::init(model, ctx, gr::he_normal{.seed = seed}); }
  constexpr auto loss(const auto& x, const auto& y) const { return gr::cross_entropy(model(x), y); }
};
template <class D>
struct training : training_by<D, gr::adamw<float, D>, gr::upto<most>> {};
// Its outputs are classes.
template <class D>
struct other_training : training_by<D, gr::lion<float, D>, most> {
  constexpr auto predict(const auto& x) const { return gr::argmax<-1>(this->model(x)); }
};

}  // namespace

GRADUS_C_API_DECLARE(some, float, std::int32_t, float);
GRADUS_C_API(some, training);
GRADUS_C_API_DECLARE(other, float, std::int32_t, std::int32_t);
GRADUS_C_API(other, other_training);

static_assert(gr::c_handle<training>::bytes() < 32'000);

namespace {

struct batch {
  std::vector<float> x;
  std::vector<std::int32_t> y;
  explicit batch(std::uint32_t number, std::size_t count = most) : x(count * width), y(count) {
    const gr::random_key key{.seed = 5, .step = number};
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = gr::uniform_float(key.words(i)[0]) - 0.5f;
    for (std::size_t i = 0; i < count; ++i) y[i] = static_cast<std::int32_t>(key.words(i)[1] % classes);
  }
};

double step(some_handle* h, const batch& b) {
  double loss = -1;
  CHECK(some_step(h, b.x.data(), b.y.data(), b.y.size(), 1e-2, &loss) == 0);
  return loss;
}

}  // namespace

TEST_CASE("steps and predictions in memory of any alignment allocate nothing and stay within it") {
  constexpr std::size_t guard = 70;
  std::vector<unsigned char> memory(some_bytes() + 2 * guard, 0xA5);
  some_handle* const h = some_init(3, memory.data() + guard, some_bytes());
  REQUIRE(h != nullptr);
  std::vector<batch> batches;
  for (std::uint32_t i = 0; i < 12; ++i) batches.emplace_back(i, i % most + 1);
  std::vector<float> outputs(most * classes + 1, -7.0f);
  double losses = 0;
  const std::size_t before = heap_requests();
  for (const batch& b : batches) {
    double loss = 0;
    const int stepped = some_step(h, b.x.data(), b.y.data(), b.y.size(), 1e-2, &loss);
    const int predicted = some_predict(h, b.x.data(), b.y.size(), outputs.data());
    losses += stepped == 0 && predicted == 0 ? loss : 1e9;
  }
  CHECK(heap_requests() == before);
  CHECK(losses > 0);
  CHECK(losses < 100);
  CHECK(outputs[most * classes - 1] != -7.0f);
  CHECK(outputs[most * classes] == -7.0f);
  some_free(h);
  for (std::size_t i = 0; i < guard; ++i) {
    CHECK(memory[i] == 0xA5);
    CHECK(memory[memory.size() - 1 - i] == 0xA5);
  }
}

TEST_CASE("a handle has the losses of a loop in C++, and one that loads its file goes on with them") {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  training<gr::cpu> t;
  t.init(ctx, 3);
  t.optimizer.options.lr = 1e-2;
  gr::tape tape{ctx, 3};
  const gradus_test::scratch_folder folder;
  const std::string file = (folder.path / "some.safetensors").string();
  some_handle* h = some_init(3, nullptr, 0);
  REQUIRE(h != nullptr);
  for (std::uint32_t i = 0; i < 8; ++i) {
    CAPTURE(i);
    const batch b(i, i == 2 ? 4 : most);
    const auto x = gr::from_host<float, gr::shape<gr::upto<most>, width>>(ctx, b.x.data(), b.y.size());
    const auto y = gr::from_host<std::int32_t, gr::shape<gr::upto<most>>>(ctx, b.y.data(), b.y.size());
    const auto loss = t.loss(tape.watch(x), y);
    const double expected = static_cast<double>(gr::item(loss.value()));
    gr::backward(loss);
    t.optimizer.step(ctx);
    CHECK(step(h, b) == expected);
    if (i != 4) continue;
    CHECK(some_save(h, file.c_str()) == 0);
    some_free(h);
    h = some_init(8, nullptr, 0);
    CHECK(some_load(h, file.c_str()) == 0);
  }
  some_free(h);
}

TEST_CASE("another handle of one model, an optimizer of one state, a fixed batch, outputs of another type") {
  other_handle* const h = other_init(1, nullptr, 0);
  REQUIRE(h != nullptr);
  const batch b(1);
  std::vector<std::int32_t> chosen(most, -1);
  double first = 0, last = 0;
  CHECK(other_step(h, b.x.data(), b.y.data(), most, 1e-2, &first) == 0);
  for (int i = 0; i < 60; ++i) CHECK(other_step(h, b.x.data(), b.y.data(), most, 1e-2, &last) == 0);
  CHECK(other_predict(h, b.x.data(), most, chosen.data()) == 0);
  CHECK(last < first);
  for (const std::int32_t c : chosen) CHECK((c >= 0 && c < std::int32_t{classes}));
  CHECK(other_step(h, b.x.data(), b.y.data(), most - 1, 1e-2, &last) == 1);
  CHECK(std::string(other_error(h)) == "other_step: 8 examples; a batch has 9");
  other_free(h);
}

TEST_CASE("what is wrong is one line, and the handle is as before") {
  const gradus_test::scratch_folder folder;
  const std::string missing = (folder.path / "missing.safetensors").string();
  const batch b(0);
  std::vector<float> outputs(most * classes);
  CHECK(some_step(nullptr, b.x.data(), b.y.data(), most, 0, nullptr) == 1);
  CHECK(std::string(some_error(nullptr)) == "some_step: the handle is NULL");
  some_free(nullptr);

  alignas(64) static std::byte memory[32'000];
  CHECK(some_init(1, memory, 100) == nullptr);
  CHECK(std::string(some_error(nullptr)) ==
        "some_init: the memory has 100 bytes; a handle needs " + std::to_string(some_bytes()));
  some_handle* const freed = some_init(1, memory, sizeof memory);
  REQUIRE(freed != nullptr);
  some_free(freed);
  some_free(freed);
  CHECK(some_save(freed, missing.c_str()) == 1);
  CHECK(std::string(some_error(nullptr)) == "some_save: the handle is not one of this model, or it was freed");
  other_handle* const other = other_init(1, nullptr, 0);
  CHECK(some_predict(reinterpret_cast<some_handle*>(other), b.x.data(), most, outputs.data()) == 1);
  CHECK(std::string(some_error(nullptr)) == "some_predict: the handle is not one of this model, or it was freed");

  some_handle *const h = some_init(3, nullptr, 0), *const twin = some_init(3, nullptr, 0);
  CHECK(std::string(some_error(h)).empty());
  const auto refused = [&](int status, const std::string& text) {
    CHECK(status == 1);
    CHECK_MESSAGE(std::string(some_error(h)).find(text) != std::string::npos, some_error(h));
    CHECK(std::string(some_error(h)).find('\n') == std::string::npos);
  };
  CHECK(step(h, b) == step(twin, b));
  refused(some_step(h, nullptr, b.y.data(), most, 0, nullptr), "some_step: inputs are NULL");
  refused(some_step(h, b.x.data(), nullptr, most, 0, nullptr), "some_step: targets are NULL");
  refused(some_predict(h, b.x.data(), most, nullptr), "some_predict: outputs are NULL");
  refused(some_step(h, b.x.data(), b.y.data(), 0, 0, nullptr), "some_step: 0 examples; a batch has 1 to 9");
  refused(some_predict(h, b.x.data(), 10, outputs.data()), "some_predict: 10 examples; a batch has 1 to 9");
  refused(some_save(h, ""), "some_save: the path is NULL or empty");
  refused(some_load(h, nullptr), "some_load: the path is NULL or empty");
  refused(some_load(h, missing.c_str()), "some_load: " + missing + ": no such file");
  refused(some_save(h, (folder.path / "no" / "folder").string().c_str()), "cannot be written");
  const std::string theirs = (folder.path / "other.safetensors").string();
  CHECK(other_save(other, theirs.c_str()) == 0);
  refused(some_load(h, theirs.c_str()), "some_load: " + theirs);
  std::ofstream(missing) << "something";
  refused(some_load(h, missing.c_str()), missing + ": ");
  for (const double rate : {std::nan(""), HUGE_VAL, -HUGE_VAL, -1e-3})
    refused(some_step(h, b.x.data(), b.y.data(), most, rate, nullptr), "it must be a number of 0 or more");
  batch broken = b;
  broken.x[3] = std::nanf("");
  refused(some_step(h, broken.x.data(), broken.y.data(), most, 1e-2, nullptr), "some_step: the loss is nan");
  batch large = b;
  for (float& x : large.x) x *= 1e9f;
  refused(some_step(h, large.x.data(), large.y.data(), most, 0, nullptr), "some_step: an element is too large");
  for (int i = 0; i < 2; ++i) CHECK(step(h, b) == step(twin, b));
  other_free(other);
  some_free(h);
  some_free(twin);
}
