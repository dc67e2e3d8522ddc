// Results that checkpoint regions offload to host memory: the same bits, less device memory, and copies in order.
#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <gradus/gradus.hpp>
#include <gradus/planning.hpp>
#include <gradus/testing/failing_resource.hpp>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "../../support/simulated_stream.hpp"

namespace gr = gradus;

namespace {

constexpr std::uint64_t all_results = ~std::uint64_t{0};

// A chain of four blocks with dropout.
template <class D, class P = gr::fp32>
struct model {
  using device = D;
  struct options {
    gr::region_schedule regions = {};
  };
  using vec = gr::shape<9, 23, 24>;
  std::array<gr::nn::block<gr::on<D, P>, 24, 3>, 4> blocks;
  gr::context<D>& transient;
  gr::tape<D> tape;
  gr::region_schedule regions;

  constexpr model(gr::context<D>& persistent, gr::context<D>& to, const options& o = {})
      : transient(to), tape(to, 9), regions(o.regions) {
    gr::init(blocks, persistent, gr::normal_init{.seed = 2, .stddev = 0.3});
  }
  // `body(x)` is the model; twice over, with other draws the second time.
  template <class Body>
  constexpr void step(const Body& body) {
    auto x = tape.variable(gr::full<float, vec>(transient, 0.5f, gr::category::input));
    const auto y = gr::cast<float>(body(x));
    const auto loss = gr::mean(y * y);
    gr::backward(loss);
  }
  constexpr void step() {
    step([this](auto v) { return chained(std::move(v)); });
    gr::clear_gradients(blocks);
    tape.clear();
  }
  constexpr auto chained(auto v) const {
    return gr::chain(blocks, std::move(v), regions, [](const auto& block, auto u) { return block(std::move(u), 0.2); });
  }
};

// A model on the CPU, with memory that is counted.
template <class P = gr::fp32>
struct fixture {
  gr::stream stream;
  gr::host_resource heap;
  gr::stats_resource device{heap}, host{heap};
  gr::testing::failing_resource device_faults{device}, host_faults{host};
  gr::context<gr::cpu> persistent{stream, heap}, ctx{stream, device_faults};
  model<gr::cpu, P> net{persistent, ctx};

  fixture() { gr::offload_to(ctx, host_faults); }
  std::vector<std::vector<float>> gradients() {
    std::vector<std::vector<float>> all;
    gr::visit_params(net.blocks, [&](const auto& p) {
      all.push_back(p.gradient() ? gr::to_host(gr::cast<float>(p.gradient())) : std::vector<float>{});
      p.clear_gradient();
    });
    return all;
  }
  template <class Body>
  std::vector<std::vector<float>> run(const Body& body) {
    net.tape.set_random(9, 0);
    host.reset_peak();
    device.reset_peak();
    std::vector<std::vector<float>> all;
    for (int i = 0; i < 2; ++i) {
      net.step(body);
      for (auto& g : gradients()) all.push_back(std::move(g));
    }
    net.tape.clear();
    CHECK(device.all().live == 0);
    CHECK(host.all().live == 0);
    return all;
  }
  std::vector<std::vector<float>> under(const gr::region_schedule& schedule) {
    net.regions = schedule;
    return run([&](auto v) { return net.chained(std::move(v)); });
  }
  template <class Policy>
  std::vector<std::vector<float>> by(const Policy& policy) {
    return run([&](auto v) {
      for (const auto& block : net.blocks)
        v = gr::checkpoint(
            policy, [&block](auto u) { return block(std::move(u), 0.2); }, std::move(v));
      return v;
    });
  }
};

template <class P>
void check_policies() {
  fixture<P> f;
  const auto expected = f.under({});
  CHECK(f.host.all().total == 0);
  CHECK(f.by(gr::save_all{}) == expected);
  const std::size_t kept = f.device.all().peak;
  const auto same = [&](const auto& policy) {
    CHECK(f.by(policy) == expected);
    CHECK(f.host.all().peak > 0);
    CHECK(f.device.all().peak < kept);
  };
  same(gr::offload<gr::save_all>{});
  same(gr::offload_only<gr::op::matmul, gr::op::attention>{});
  same(gr::offload{gr::save_listed{{"gelu", "layer_norm"}}});
  same(gr::offload{gr::save_if([](const gr::region_op& op) { return op.number % 2 == 0; })});
  same(gr::save_numbered{0b0000010010, 0b1111100001});
}

}  // namespace

TEST_CASE("gradients with results in host memory are bit for bit those without regions") { check_policies<gr::fp32>(); }
TEST_CASE("the same in mixed precision") { check_policies<gr::bf16_mixed>(); }

TEST_CASE("regions with results in host memory nest, and mix with others in a schedule") {
  fixture<> f;
  const auto expected = f.under({});
  const auto run = [&](std::vector<gr::chain_part> parts) {
    gr::region_schedule s;
    s.parts = std::move(parts);
    CHECK(f.under(s) == expected);
    return f.host.all().peak;
  };
  const gr::chain_part first{0, 0, true, 0, {}, all_results}, second{1, 1, true, 0, {}, all_results},
      third{2, 2, true, 1, {}, 0b10110}, fourth{3, 3, true, 0, {}, all_results};
  const std::size_t three = run({first, second, third, fourth});
  const std::size_t one = run({first, {1, 1, true}, {2, 3}});
  CHECK(one > 0);
  CHECK(three > 2 * one);
  CHECK(run({first, {1, 1}, {2, 2}, fourth}) == one);
  CHECK(run({first, {1, 3}}) == one);
  // The last region's results stay.
  CHECK(run({{0, 2}, fourth}) == 0);
  // Within a replay, and before one.
  CHECK(run({{0, 3, true, 0, {first, second, third, fourth}}}) == three);
  CHECK(run({{0, 3, true, 0, {first, {1, 1}, {2, 2}, fourth}}}) == one);
  CHECK(run({first, second, {2, 3, true, 0, {third, fourth}}}) == 2 * one);
  CHECK(run({first, {1, 2, true, 0, {second, third}}, fourth}) == one);  // the first's are back by then
  // A region that itself keeps results in host memory, and has regions within.
  const auto block = [&](auto v) { return f.net.blocks[0](std::move(v), 0.2); };
  const auto two = [&](auto v) {
    auto h = gr::checkpoint<gr::offload<gr::save_all>>(block, std::move(v));
    return gr::checkpoint<gr::offload_only<gr::op::linear>>(block, gr::gelu(std::move(h)));
  };
  const auto plain = f.run([&](auto v) { return block(gr::gelu(block(block(gr::gelu(block(v)))))); });
  CHECK(f.run([&](auto v) {
    return gr::checkpoint<gr::offload<gr::save_all>>(two, gr::checkpoint<gr::offload<gr::save_all>>(two, v));
  }) == plain);
}

TEST_CASE("a step takes the device and host memory that were planned, to the byte") {
  using planned = model<gr::meta>;
  const auto check = [](const gr::region_schedule& regions) {
    const gr::step_trace trace = gr::trace_step<planned>(planned::options{regions});
    const gr::step_summary plan = gr::summarize(trace);
    fixture<> f;
    gr::basic_planned_resource<gr::stream> memory(gr::make_plan(trace), f.device_faults, f.stream);
    gr::stats_resource counted(memory);
    gr::context<gr::cpu> transient{f.stream, counted};
    gr::offload_to(transient, f.host);
    model<gr::cpu> net(f.persistent, transient, {regions});
    for (int i = 0; i < 3; ++i) {
      net.step();
      memory.check();
      CHECK(counted.all().live == 0);
      CHECK(counted.all().peak == plan.peak_bytes - plan.persistent_bytes);
      CHECK(f.host.all().live == 0);
      CHECK(f.host.all().peak == plan.host_bytes);
    }
    return plan;
  };
  const auto plain = check(gr::region_schedule::every_block(4, all_results));
  CHECK(plain.host_bytes == 0);
  const auto moved = check(gr::region_schedule::every_block(4, 0, all_results));
  CHECK(moved.host_bytes > 0);
  CHECK(moved.peak_bytes < plain.peak_bytes);
  CHECK(moved.recomputed_flops() == plain.recomputed_flops());
  gr::region_schedule nested;
  nested.parts = {{0, 0, true, 0, {}, all_results},
                  {1, 3, true, 0, {{1, 1, true, 0, {}, 0b111}, {2, 2, false}, {3, 3, true, 5}}}};
  CHECK(check(nested).host_bytes > 0);
}

TEST_CASE("a step with results in host memory is planned in a constant expression") {
  constexpr std::size_t bytes = [] {
    model<gr::meta>::options o;
    o.regions = gr::region_schedule::every_block(4, 0, 0b10010);
    return gr::summarize_step<model<gr::meta>>(o).host_bytes;
  }();
  static_assert(bytes > 0);
}

TEST_CASE("a result that others share stays on the device") {
  fixture<> f;
  const auto run = [&](const auto& body) {
    return f.run([&](auto v) {
      auto [a, b] = gr::checkpoint<gr::offload<gr::save_all>>(body, std::move(v));
      return gr::checkpoint([](auto c, auto d) { return gr::tanh(c) * d; }, a, b);
    });
  };
  const auto shared = [](auto v) {
    auto t = gr::tanh(std::move(v));
    return std::tuple{gr::reshape<9, 23, 24>(t), t * t};
  };
  const auto expected = f.run([&](auto v) {
    auto [a, b] = shared(std::move(v));
    return gr::tanh(a) * b;
  });
  CHECK(run(shared) == expected);
  CHECK(f.host.all().peak == 0);
}

TEST_CASE("without host memory, a region that offloads is refused with the remedy") {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  model<gr::cpu> net(ctx, ctx, {gr::region_schedule::every_block(4, 0, 1)});
  CHECK_THROWS_WITH_AS(
      net.step(),
      "checkpoint: a region offloads results, and there is no memory for them; call gr::offload_to(ctx, memory)",
      gr::error);
  net.tape.clear();
}

TEST_CASE("a step that any one request for device or host memory ends leaves nothing behind, and the next is good") {
  fixture<> f;
  const auto schedule = gr::region_schedule::every_block(4, 0, all_results);
  const auto expected = f.under(schedule);
  for (gr::testing::failing_resource* faults : {&f.host_faults, &f.device_faults}) {
    int refusals = 0;
    for (bool refused = true; refused; ++refusals) {
      faults->fail_at(static_cast<std::size_t>(refusals));
      refused = false;
      try {
        f.net.step();
      } catch (const gr::out_of_memory&) {
        refused = true;
        f.net.tape.clear();
        gr::clear_gradients(f.net.blocks);
        CHECK(f.device.all().live == 0);
        CHECK(f.host.all().live == 0);
      }
    }
    CHECK(refusals > 10);
    faults->fail_at(0, 0);
    CHECK(f.under(schedule) == expected);
  }
}

TEST_CASE("a recording that is discarded, or whose regions no loss depends on, gives all memory back") {
  fixture<> f;
  f.net.regions = gr::region_schedule::every_block(4, 0, all_results);
  {
    const auto y = f.net.chained(f.net.tape.watch(gr::full<float, model<gr::cpu>::vec>(f.ctx, 0.5f)));
    CHECK(f.host.all().live > 0);
  }
  f.net.tape.clear();
  CHECK(f.host.all().live == 0);
  CHECK(f.device.all().live == 0);
  f.run([&](auto v) {
    f.net.chained(v);
    for (const auto& block : f.net.blocks) v = block(std::move(v));
    return v;
  });
}

// ---- order ------------------------------------------------------------------------------------------------------------

namespace {

using simulated_stream = gr::testing::simulated_stream;

// A device that computes nothing, and whose work runs when a test says so.
struct simulated : gr::meta {
  using stream_type = simulated_stream;
  using resource_type = gr::basic_resource<simulated_stream>;
};

// Watches the memory, operations and copies of a step on `stream`.
class order_check final : public gr::resource_adaptor<simulated_stream>, public gr::observer {
 public:
  order_check(gr::basic_resource<simulated_stream>& from, simulated_stream& on) : resource_adaptor(from), on_(&on) {
    now = this;
  }
  static inline order_check* now = nullptr;
  int copies_out = 0, copies_in = 0, freed = 0, read = 0;
  int beside[gr::phase_count] = {};  // operations that need not wait for a copy, by phase

  // A copy from or to device memory, on a stream of its own: after all operations so far.
  void copy(simulated_stream& by, const void* device, bool out) {
    CHECK(by.ordered_after(last_op_));
    by.submit();
    copies_.push_back({device, {}, out});
    by.record(copies_.back().end);
    ++(out ? copies_out : copies_in);
  }
  void begin(const gr::activity& a) override {
    if (is_operation(a) && !all_done()) ++beside[static_cast<std::size_t>(a.phase)];
  }
  void end(const gr::activity& a) override {
    if (!is_operation(a)) return;
    on_->submit();
    on_->record(last_op_);
  }
  // Backward will read what was copied back: a result that a replay takes.
  void saved(std::string_view, const gr::memory_request& request) override {
    for (const copied& c : copies_)
      if (!c.out && c.device == memory_of_[request.id]) {
        CHECK(on_->ordered_after(c.end));
        ++read;
      }
  }

 private:
  struct copied {
    const void* device;
    simulated_stream::event end;
    bool out;
  };
  static bool is_operation(const gr::activity& a) {
    return a.name != gr::offload_name && a.name != gr::fetch_name && a.name != gr::copy_wait_name;
  }
  bool all_done() const {
    bool all = true;
    for (const copied& c : copies_) all = all && on_->ordered_after(c.end);
    return all;
  }
  void* do_allocate(const gr::memory_request& request, simulated_stream& on) override {
    return memory_of_[request.id] = from().allocate(request, on);
  }
  // A block is not freed while it is copied.
  void do_deallocate(void* memory, const gr::memory_request& request, simulated_stream& on) noexcept override {
    for (const copied& c : copies_)
      if (c.device == memory) {
        CHECK(on.ordered_after(c.end));
        ++freed;
      }
    from().deallocate(memory, request, on);
  }

  simulated_stream* on_;
  simulated_stream::event last_op_;
  std::map<std::size_t, void*> memory_of_;
  std::vector<copied> copies_;
};

}  // namespace

namespace gradus {
template <>
struct device_access<simulated> {
  static void zero(context<simulated>&, void*, std::size_t) {}
  static void copy(context<simulated>&, void*, const void*, std::size_t) {}
  static void upload(context<simulated>& ctx, void* to, const void*, std::size_t) {
    order_check::now->copy(ctx.stream(), to, false);
  }
  static void download_later(context<simulated>& ctx, void*, const void* from, std::size_t) {
    order_check::now->copy(ctx.stream(), from, true);
  }
};
}  // namespace gradus

TEST_CASE(
    "copies run beside the operations of another region, and nothing reads or frees memory before they are done") {
  simulated_stream stream;
  gr::testing::simulated_memory memory;
  order_check check(memory, stream);
  gr::context<simulated> persistent{stream, memory}, ctx{stream, check};
  model<simulated> net(persistent, ctx, {gr::region_schedule::every_block(4, 0, all_results)});
  const std::size_t before = memory.live();
  ctx.observe(&check);
  SUBCASE("a step") {
    net.step();
    CHECK(check.copies_out > 0);
    CHECK(check.copies_out == check.copies_in);
    CHECK(check.freed == check.copies_out + check.copies_in);
    CHECK(check.read >= check.copies_in);
    CHECK(check.beside[static_cast<std::size_t>(gr::phase::forward)] > 0);
    CHECK(check.beside[static_cast<std::size_t>(gr::phase::backward)] > 0);
  }
  SUBCASE("a recording that is discarded") {
    net.chained(net.tape.watch(gr::full<float, model<simulated>::vec>(ctx, 0.5f)));
    net.tape.clear();
    CHECK(check.freed == check.copies_out);
  }
  ctx.observe(nullptr);
  CHECK(memory.live() == before);
}
