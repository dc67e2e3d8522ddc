// What a policy says is what happens: which types operations give, what parameters are cast to, and when.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "../../support/operands.hpp"

namespace gr = gradus;
using gradus_test::normal;
using gradus_test::workplace;

namespace {

template <class T, class S>
using tensor = gr::tensor<T, S, gr::cpu>;
using x_shape = gr::shape<5, 16>;

template <class P>
using on = gr::on<gr::cpu, P>;

// Writes down the operations that run in a context.
class journal final : public gr::observer {
 public:
  explicit journal(gr::context<gr::cpu>& ctx) : ctx_(&ctx) { ctx.observe(this); }
  ~journal() override { ctx_->observe(nullptr); }
  void begin(const gr::activity& what) override { names.emplace_back(what.name); }
  void end(const gr::activity&) override {}
  std::size_t count(const std::string& name) const {
    std::size_t n = 0;
    for (const auto& s : names) n += s == name ? 1u : 0u;
    return n;
  }
  std::vector<std::string> names;

 private:
  gr::context<gr::cpu>* ctx_;
};

template <class P>
using copies = gr::precision_with<P, gr::keep_copies>;

template <class P>
struct small {
  gr::nn::layer_norm<on<P>, 16> norm;
  gr::nn::linear<on<P>, 16, 3> head;
  GRADUS_MEMBERS(norm, head)
  constexpr auto operator()(auto x) const { return head(norm(std::move(x))); }
};

}  // namespace

TEST_CASE("types meet in the wider one, whatever their order") {
  static_assert(std::is_same_v<gr::promote<float, double>, double>);
  static_assert(std::is_same_v<gr::promote<double, float>, double>);
  static_assert(std::is_same_v<gr::promote<gr::bf16, gr::f16>, float>);
  static_assert(std::is_same_v<gr::promote<gr::f16, gr::bf16>, float>);
  static_assert(std::is_same_v<gr::promote<gr::bf16, float>, float>);
  static_assert(std::is_same_v<gr::promote<std::int64_t, gr::bf16>, gr::bf16>);
  static_assert(std::is_same_v<gr::promote<std::int32_t, std::int64_t>, std::int64_t>);
  static_assert(std::is_same_v<gr::promote<std::int64_t, std::int32_t>, std::int64_t>);
  static_assert(std::is_same_v<gr::promote<bool, std::uint8_t>, std::uint8_t>);
  static_assert(std::is_same_v<gr::promote<std::int32_t, bool, float>, float>);
  workplace at;
  const auto f = normal<float, x_shape>(at.ctx);
  const auto d = normal<double, x_shape>(at.ctx);
  static_assert(std::is_same_v<decltype(f + d), tensor<double, x_shape>>);
  static_assert(std::is_same_v<decltype(d + f), tensor<double, x_shape>>);
  const auto a = f + d;
  const auto b = d + f;
  CHECK(gradus_test::same_bits(a, b));
  const auto small = gr::from_values<std::int32_t, gr::shape<2>>(at.ctx, {1, -7});
  const auto large = gr::from_values<std::int64_t, gr::shape<2>>(at.ctx, {std::int64_t{1} << 40, 3});
  CHECK((small + large)(0) == (std::int64_t{1} << 40) + 1);
  CHECK((large + small)(1) == -4);
  const auto half = gr::cast<gr::bf16>(f) + small(0) * 0.0;  // a number on either side keeps the tensor's type
  static_assert(std::is_same_v<decltype(half)::value_type, gr::bf16>);
}

TEST_CASE("products of a parameter compute in what its policy says, and reductions with one give what it says") {
  workplace at;
  const auto check = [&]<class P, class Norm, class Product>(P, Norm, Product) {
    small<P> net;
    gr::init(net, at.ctx, gr::normal_init{.seed = 3, .stddev = 0.5});
    const auto x = normal<float, x_shape>(at.ctx);
    static_assert(std::is_same_v<typename decltype(net.norm(x))::value_type, Norm>);
    static_assert(std::is_same_v<typename decltype(net(x))::value_type, Product>);
    gr::tape tape{at.ctx};
    const auto targets = gr::from_values<std::int32_t, gr::shape<5>>(at.ctx, {0, 1, 2, 0, 1});
    auto loss = gr::cross_entropy(net(tape.watch(x)), targets);
    static_assert(std::is_same_v<gr::value_of_t<decltype(loss)>, float>);
    gr::backward(loss);
    static_assert(std::is_same_v<typename decltype(net.head.weight)::gradient_type::value_type, typename P::gradient>);
    CHECK(net.head.weight.has_gradient());
  };
  check(gr::fp32{}, float{}, float{});
  check(gr::bf16_mixed{}, float{}, gr::bf16{});
  check(gr::fp16_mixed{}, float{}, gr::f16{});
  check(gr::bf16_pure{}, float{}, gr::bf16{});
  check(gr::precision<float, gr::bf16, float, gr::bf16>{}, gr::bf16{}, gr::bf16{});
}

TEST_CASE("a policy with other lists takes operations out of the low one and into it") {
  workplace at;
  const auto x = normal<float, x_shape>(at.ctx);
  using full = gr::precision_with<gr::bf16_mixed, gr::in_full<gr::op::matmul>>;
  using low = gr::precision_with<gr::bf16_mixed, gr::in_low<gr::op::layer_norm>>;
  small<full> a;
  small<low> b;
  small<gr::fp32> plain;
  gr::init(a, at.ctx, gr::normal_init{.seed = 3, .stddev = 0.5});
  gr::init(b, at.ctx, gr::normal_init{.seed = 3, .stddev = 0.5});
  gr::init(plain, at.ctx, gr::normal_init{.seed = 3, .stddev = 0.5});
  static_assert(std::is_same_v<decltype(a(x))::value_type, float>);
  static_assert(std::is_same_v<decltype(b.norm(x))::value_type, gr::bf16>);
  CHECK(gradus_test::same_bits(a(x), plain(x)));
}

namespace {

// A block whose norms give what the policy says, and the products cast that.
template <class X>
struct block_by_hand {
  gr::nn::layer_norm<X, 16> norm1;
  gr::nn::attention<X, 16, 2> attention;
  gr::nn::layer_norm<X, 16> norm2;
  gr::nn::mlp<X, 16> mlp;
  GRADUS_MEMBERS(norm1, attention, norm2, mlp)
  constexpr auto operator()(auto x) const {
    auto y = x + attention(norm1(x));
    return y + mlp(norm2(y));
  }
};

template <class P, class Block>
auto gradients_of(workplace& at, const gr::tensor<float, gr::shape<2, 7, 16>, gr::cpu>& x, std::size_t& casts) {
  Block block;
  gr::init(block, at.ctx, gr::normal_init{.seed = 3, .stddev = 0.5});
  journal ran(at.ctx);
  gr::tape<gr::cpu> tape(at.ctx);
  const auto y = block(tape.watch(x));
  gr::backward(gr::sum(y * y));
  casts = ran.count("cast");
  std::vector<std::vector<typename P::gradient>> found;
  gr::for_each_param(block, [&](std::string_view, const auto& p) { found.push_back(gr::to_host(p.gradient())); });
  return found;
}

template <class P>
void check_norms_of_a_block(bool casts_less) {
  workplace at;
  const auto x = normal<float, gr::shape<2, 7, 16>>(at.ctx);
  std::size_t casts = 0, casts_by_hand = 0;
  const auto found = gradients_of<P, gr::nn::block<on<P>, 16, 2>>(at, x, casts);
  CHECK(found == gradients_of<P, block_by_hand<on<P>>>(at, x, casts_by_hand));
  CHECK((casts < casts_by_hand) == casts_less);
}

}  // namespace

TEST_CASE("a block's norms give what its products take, with the bits of a cast between them") {
  check_norms_of_a_block<gr::bf16_mixed>(true);
  check_norms_of_a_block<gr::fp16_mixed>(true);
  check_norms_of_a_block<gr::bf16_pure>(true);
  check_norms_of_a_block<gr::fp32>(false);
  check_norms_of_a_block<gr::precision_with<gr::bf16_mixed, gr::in_full<gr::op::linear>>>(false);
}

TEST_CASE("the accumulator of a policy is what sums are kept in") {
  // 1 + 2^-30 needs more than a float: a product that adds up in double sees the second term.
  workplace at;
  using wide = gr::precision<float, float, double, double>;
  gr::param<on<wide>, 2, 1> w;
  w.set(gr::from_values<float, gr::shape<2, 1>>(at.ctx, {1.0f, 0x1p-15f}));
  const auto x = gr::from_values<float, gr::shape<1, 2>>(at.ctx, {1.0f, 0x1p-15f});
  const auto minus = gr::from_values<float, gr::shape<1>>(at.ctx, {-1.0f});
  CHECK(gr::item(gr::linear(x, w, minus)) == 0x1p-30f);
  gr::param<on<gr::fp32>, 2, 1> narrow;
  narrow.set(gr::clone(w.value()));
  CHECK(gr::item(gr::linear(x, narrow, minus)) == 0.0f);
}

TEST_CASE(
    "a copy of a parameter is made once after each change, and not again in the next batch, in a region or in "
    "inference") {
  workplace at;
  using P = on<copies<gr::bf16_mixed>>;
  gr::nn::linear<P, 16, 16> layer;
  gr::init(layer, at.ctx, gr::normal_init{.seed = 3, .stddev = 0.5});
  gr::sgd opt{layer, {.lr = 0.1}};
  gr::tape tape{at.ctx};
  const auto x = normal<gr::bf16, x_shape>(at.ctx);
  const journal seen(at.ctx);
  const auto step = [&] {
    for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
      auto v = tape.watch(x);
      auto y = gr::checkpoint([&layer](auto u) { return gr::gelu(layer(std::move(u))); }, layer(std::move(v)));
      gr::backward(gr::mean(y * y));
    }
  };
  step();
  CHECK(seen.count("cast") == 1);
  static_cast<void>(layer(x));
  CHECK(seen.count("cast") == 1);
  const auto before = at.stats.all().live;
  opt.step(at.ctx);
  step();
  CHECK(seen.count("cast") == 2);
  opt.clear_gradients();
  tape.clear();
  CHECK(at.stats.all().live <= before);  // into the same memory
  // The copy is that of the changed value.
  CHECK(gradus_test::same_bits(layer.weight.computed(), gr::cast<gr::bf16>(layer.weight.value())));
}

namespace {

// A product with a parameter of each kind.
template <class P>
struct products {
  gr::nn::linear<on<P>, 16, 24> layer;
  gr::param<on<P>, 24, 16> plain;
  gr::param<on<P>, 40, 16> table;
  GRADUS_MEMBERS(layer, plain, table)

  template <class X, class Targets>
  auto operator()(X x, const Targets& targets) const {
    auto h = gr::matmul(gr::gelu(layer(std::move(x))), plain);
    auto logits = gr::matmul<gr::transpose{.b = true}>(h, table);
    return gr::linear_cross_entropy<37>(h, table, targets) + gr::mean(logits * logits);
  }
};

// The loss and the gradients of two batches, in that order, and the copies of parameters that were made.
struct outcome {
  std::vector<float> numbers;
  std::size_t casts;
};

template <class P>
outcome two_batches(unsigned seed, bool in_region) {
  workplace at;
  products<P> model;
  gr::init(model, at.ctx, gr::normal_init{.seed = seed, .stddev = 0.5});
  const auto x = normal<typename P::compute, x_shape>(at.ctx, 1, seed);
  const auto targets = gr::from_values<std::int32_t, gr::shape<5>>(at.ctx, {1, 36, 0, 7, -1});
  const journal seen(at.ctx);
  gr::tape tape{at.ctx};
  outcome result{};
  for (int batch = 0; batch < 2; ++batch) {
    const auto f = [&](auto v) { return model(std::move(v), targets); };
    auto loss = in_region ? gr::checkpoint(f, tape.watch(x)) : f(tape.watch(x));
    result.numbers.push_back(gr::item(loss.value()));
    gr::backward(loss);
  }
  gr::for_each_param(model, [&](std::string_view, const auto& p) {
    for (const auto v : p.gradient().values()) result.numbers.push_back(static_cast<float>(v));
  });
  result.casts = seen.count("cast");
  return result;
}

}  // namespace

TEST_CASE("products read parameters as they are stored, and give the bits that copies of them give") {
  for (const bool in_region : {false, true}) {
    const unsigned seed = gradus_test::fresh_seed();
    const auto direct = two_batches<gr::bf16_mixed>(seed, in_region);
    const auto copied = two_batches<copies<gr::bf16_mixed>>(seed, in_region);
    CHECK(direct.numbers == copied.numbers);
    CHECK(copied.casts == direct.casts + 3);  // once for both batches, and for both uses of the table
    // The gradient of f16 logits is float, and so is the table that it meets.
    const auto direct_f16 = two_batches<gr::fp16_mixed>(seed, in_region);
    const auto copied_f16 = two_batches<copies<gr::fp16_mixed>>(seed, in_region);
    CHECK(direct_f16.numbers[0] == copied_f16.numbers[0]);
    CHECK(direct_f16.numbers[1] == copied_f16.numbers[1]);
    CHECK(gradus_test::error_in_norm(direct_f16.numbers, copied_f16.numbers) < 1e-3);
  }
}

TEST_CASE("gradients that accumulate in bf16 are those in float, rounded after each backward pass") {
  const unsigned seed = gradus_test::fresh_seed();
  const auto wide = two_batches<gr::bf16_mixed>(seed, false);
  const auto narrow = two_batches<gr::bf16_gradients>(seed, false);
  CHECK(narrow.numbers[0] == wide.numbers[0]);
  CHECK(gradus_test::error_in_norm(narrow.numbers, wide.numbers) < 0x1p-7);
  CHECK(narrow.numbers != wide.numbers);
}

TEST_CASE("a parameter that changed between forward and backward is refused, in a region too") {
  workplace at;
  const auto refused = [&]<class P>(P, bool in_region) {
    gr::param<on<P>, 16, 4> w;
    w.set(normal<typename P::store, gr::shape<16, 4>>(at.ctx));
    gr::tape tape{at.ctx};
    auto x = tape.variable(normal<float, x_shape>(at.ctx));  // its gradient needs w
    const auto f = [&w](auto v) { return gr::sum(gr::matmul(std::move(v), w)); };
    auto loss = in_region ? gr::checkpoint(f, std::move(x)) : f(std::move(x));
    w.edit().data()[0] = 100;
    if (in_region) {
      CHECK_THROWS_WITH_AS(
          gr::backward(loss),
          "checkpoint: at backward the region applied other operations or read other parameters or states than in "
          "forward; its function must depend only on its arguments, and neither may change before backward()",
          gr::error);
    } else {
      CHECK_THROWS_WITH_AS(
          gr::backward(loss),
          "backward: a parameter or state of matmul was changed since the recording, so its gradient would "
          "be wrong; change it after backward()",
          gr::error);
    }
  };
  for (const bool in_region : {false, true}) {
    refused(gr::fp32{}, in_region);
    refused(gr::bf16_mixed{}, in_region);
    refused(copies<gr::bf16_mixed>{}, in_region);
  }
  // What keeps nothing of the parameter does not mind.
  gr::param<on<gr::fp32>, 16> b;
  b.set(normal<float, gr::shape<16>>(at.ctx));
  gr::tape tape{at.ctx};
  const auto loss = gr::sum(tape.watch(normal<float, x_shape>(at.ctx)) + b);
  b.edit().data()[0] = 100;
  gr::backward(loss);
  CHECK(b.gradient()(0) == 5);
}

TEST_CASE("a parameter that was moved from says so") {
  workplace at;
  gr::param<on<gr::fp32>, 3> a;
  a.set(gr::ones<float, gr::shape<3>>(at.ctx));
  const gr::param<on<gr::fp32>, 3> b(std::move(a));
  const char* const message = "this parameter was moved from; use the one that it was moved to";
  // NOLINTBEGIN(bugprone-use-after-move): that is the mistake
  CHECK_THROWS_WITH_AS(static_cast<void>(a.gradient()), message, gr::error);
  CHECK_THROWS_WITH_AS(a.clear_gradient(), message, gr::error);
  CHECK_THROWS_WITH_AS(a.set(gr::ones<float, gr::shape<3>>(at.ctx)), message, gr::error);
  // NOLINTEND(bugprone-use-after-move)
  CHECK(gr::item(gr::sum(b)) == 3);
}

TEST_CASE("an operand that stands in two places is not moved from under the other") {
  workplace at;
  const auto x0 = normal<float, x_shape>(at.ctx);
  auto a = gr::clone(x0);
  CHECK(gradus_test::same_bits(a * std::move(a), x0 * x0));
  auto b = gr::clone(x0);
  CHECK(gradus_test::same_bits(std::move(b) - b, x0 - x0));  // NOLINT(bugprone-use-after-move): it must not matter
  auto c = gr::clone(x0);
  CHECK(gradus_test::same_bits(gr::maximum(c, std::move(c)), x0));
  auto d = gr::clone(x0);
  CHECK(gradus_test::same_bits(gr::where(d, d, std::move(d)), x0));
  gr::tape tape{at.ctx};
  const auto start = tape.variable(gr::clone(x0));
  auto v = start * 1.0;
  gr::backward(gr::sum(v * std::move(v)));
  CHECK(gradus_test::same_bits(start.gradient(), x0 * 2.0));
  // and where both are cast first
  const auto keys = normal<float, gr::shape<1, 1, 16, 16>>(at.ctx);
  const auto half = gr::cast<gr::bf16>(keys);
  auto e = gr::clone(keys);
  CHECK(gradus_test::same_bits(gr::attention(half, e, std::move(e)), gr::attention(half, half, half)));
}

TEST_CASE("a cast gives back the gradient in the type it came from") {
  workplace at;
  gr::tape tape{at.ctx};
  const auto x = tape.variable(normal<float, x_shape>(at.ctx));
  gr::backward(gr::sum(gr::cast<gr::bf16>(x) * 3.0));
  static_assert(std::is_same_v<std::remove_cvref_t<decltype(x.gradient())>, tensor<float, x_shape>>);
  CHECK(x.gradient()(4, 15) == 3.0f);
  const auto same = gr::cast<float>(x.value());
  CHECK(same.data() == x.value().data());  // nothing to do
  const auto cut = gr::cast<std::int32_t>(gr::from_values<float, gr::shape<2>>(at.ctx, {-1.75f, 2.5f}));
  CHECK(cut(0) == -1);
  CHECK(cut(1) == 2);
}

TEST_CASE("a parameter that is cast otherwise than its policy says is cast within the recording") {
  workplace at;
  using P = gr::precision_with<gr::bf16_pure, gr::in_full<gr::op::matmul>>;
  gr::param<gr::on<gr::cpu, P>, 3, 5> w;
  w.set(gr::cast<gr::bf16>(normal<float, gr::shape<3, 5>>(at.ctx)));
  const auto x = normal<float, gr::shape<5, 4>>(at.ctx);
  gr::tape tape(at.ctx);
  gr::backward(gr::sum(gr::matmul(w, tape.watch(x))));
  double wanted = 0;
  for (std::size_t c = 0; c < 4; ++c) wanted += static_cast<double>(x(2, c));
  CHECK(static_cast<double>(static_cast<float>(w.gradient()(1, 2))) == doctest::Approx(wanted).epsilon(0.01));
}
