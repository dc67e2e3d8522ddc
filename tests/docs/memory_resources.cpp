// The code of docs/guide/memory-resources.md.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <gradus/gradus.hpp>
#include <gradus/memory/tracking_resource.hpp>
#include <gradus/testing/failing_resource.hpp>
#include <string>
#include <vector>

#include "../support/scratch_folder.hpp"
#include "../support/simulated_stream.hpp"

namespace gr = gradus;

TEST_CASE("the guide's stack of resources") {
  // [stack]
  gr::stream stream;
  gr::host_resource heap;                     // the operating system
  gr::limit_resource limit(heap, 256 << 20);  // refuses to hold more than 256 MiB
  gr::pool_resource pool(limit);              // keeps memory for the next step
  gr::stats_resource memory(pool);            // counts every request
  gr::context ctx{stream, memory};
  // [/stack]
  {
    const auto x = gr::zeros<float, gr::shape<100, 100>>(ctx);
    const auto y = gr::full<float, gr::shape<100>>(ctx, 1.0f, gr::category::input);
    // [stats]
    std::size_t live = memory.all().live;                                        // bytes now
    std::size_t peak = memory.all().peak;                                        // most bytes at once
    std::size_t activations = memory.of(gr::category::activation).peak;          // most of this category at once
    std::size_t activations_at_peak = memory.at_peak(gr::category::activation);  // of it, when `peak` was reached
    std::size_t kept = pool.cached_bytes();                                      // free, for the next requests
    // [/stats]
    CHECK(live == 40400);
    CHECK(peak == 40400);
    CHECK(activations == 40000);
    CHECK(activations_at_peak == 40000);
    CHECK(kept == (32u << 20) - 40000 - 448);
  }
  // [trim]
  pool.release();  // segments of which nothing is in use go back to the operating system
  // [/trim]
  CHECK(pool.reserved_bytes() == 0);
}

TEST_CASE("the guide's message when memory runs out") {
  gr::stream stream;
  gr::host_resource heap;
  // [oom]
  gr::limit_resource limit(heap, 1 << 20);
  gr::pool_resource pool(limit, 1 << 16);
  gr::context ctx{stream, pool};
  const auto kept = gr::zeros<float, gr::shape<100, 1000>>(ctx);
  std::string said;
  try {
    const auto more = gr::zeros<float, gr::shape<1000, 1000>>(ctx);
  } catch (const gr::out_of_memory& e) {
    said = e.what();  // and e.figures has the numbers
  }
  // [/oom]
  CHECK(
      said ==
      "memory pool: asked 4000000 bytes (3.81 MiB) for activation; live 400000 bytes (0.38 MiB), cached 0 bytes (0.00 "
      "MiB), limit 1048576 bytes (1.00 MiB); at most 648576 bytes (0.62 MiB) would fit");
}

TEST_CASE("the guide's leak") {
  gr::stream stream;
  gr::host_resource heap;
  std::string log;
  // [leak]
  gr::tracking_resource tracking(heap,
                                 [&](const std::string& report) { log = report; });  // called at its end, if need be
  gr::context ctx{stream, tracking};
  tracking.label("warm-up");
  std::vector<gr::tensor<float, gr::shape<64>>> history;
  history.push_back(gr::zeros<float, gr::shape<64>>(ctx));
  std::string so_far = tracking.report();
  // [/leak]
  CHECK(so_far ==
        "1 live blocks, 256 bytes (0.00 MiB)\n"
        "  256 bytes (0.00 MiB), activation, phase outside, request 0, warm-up\n");
}

TEST_CASE("the guide's fault") {
  gr::stream stream;
  gr::host_resource heap;
  // [fault]
  gr::testing::failing_resource faults(heap);
  gr::context ctx{stream, faults};
  faults.fail_at(1);  // the second request from now
  const auto first = gr::zeros<float, gr::shape<4>>(ctx);
  bool refused = false;
  try {
    const auto second = gr::zeros<float, gr::shape<4>>(ctx);
  } catch (const gr::out_of_memory&) { refused = true; }
  // [/fault]
  CHECK(refused);
}

namespace {

// [residency]
struct in_memory final : gr::group_store<float> {  // values may come from a file, or from other ranks
  std::vector<std::vector<float>> arrays;
  void start_load(std::size_t group, float* to) override { std::ranges::copy(arrays[group], to); }
  void finish_load(std::size_t) override {}
};
// [/residency]

struct two_layers {
  gr::nn::linear<gr::on<gr::cpu>, 8, 8> first, second;
  GRADUS_MEMBERS(first, second)
};

}  // namespace

TEST_CASE("the guide's parameters that come and go") {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  two_layers net;
  const auto x = gr::ones<float, gr::shape<1, 8>>(ctx);
  // [resident]
  in_memory store;
  const gr::param_groups<float, gr::cpu> groups(net);
  for (const auto& group : groups.all()) store.arrays.emplace_back(group.size, 0.5f);
  gr::parameter_residency<float, gr::cpu> residency(ctx, groups, store);
  const auto y = net.second(net.first(x));  // loads first, then second
  // [/resident]
  CHECK(y(0, 0) == (8 * 0.5f + 0.5f) * 8 * 0.5f + 0.5f);
}

TEST_CASE("the guide's training from a file") {
  const gradus_test::scratch_folder scratch;
  const auto& folder = scratch.path;
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  gr::tape tape{ctx};
  two_layers net;
  const auto x = gr::ones<float, gr::shape<1, 8>>(ctx);
  // [offload]
  gr::file_resource file(folder);
  gr::context in_file{stream, file};
  gr::init(net, in_file, gr::normal_init{});
  gr::file_store<float> store(file, gr::param_groups<float, gr::cpu>(net));
  gr::parameter_residency<float, gr::cpu> residency(ctx, gr::param_groups<float, gr::cpu>(net), store);
  gr::file_parts parts(file);
  gr::adamw optimizer{net};
  optimizer.divide_by(&parts);

  gr::backward(gr::mean(net.second(net.first(tape.watch(x)))));
  residency.evict();
  store.attach();  // the values in the file are the parameters' own for a while: to update, save or load them
  optimizer.step(in_file);
  residency.invalidate();
  // [/offload]
  CHECK(gr::item(gr::mean(net.second(net.first(x)))) != 0);
}

TEST_CASE("the guide's parts of a buffer") {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  // [parts]
  gr::buffer<gr::cpu> flat(ctx, 128, gr::category::gradient);
  gr::tensor<float, gr::shape<4, 4>> first(flat.part(0, 64));  // offsets are multiples of 64
  gr::tensor<float, gr::shape<16>> second(flat.part(64, 64));
  // [/parts]
  CHECK(second.data() == first.data() + 16);
  // [buckets]
  struct bucket final : gr::gradient_observer {
    void complete(const void* slot) override { ready.push_back(slot); }  // &p.slot() of a parameter
    std::vector<const void*> ready;
  };
  gr::param<gr::on<gr::cpu>, 4, 4> w;
  w.set(gr::ones<float, gr::shape<4, 4>>(ctx, gr::category::parameter));
  w.slot().place(first);
  bucket sent;
  gr::tape tape{ctx};
  tape.observe(&sent);
  gr::backward(gr::sum(tape.watch(gr::ones<float, gr::shape<4, 4>>(ctx)) * w));
  // [/buckets]
  CHECK(sent.ready == std::vector<const void*>{&w.slot()});
  CHECK(first(3, 3) == 1);
}

namespace {

// [own]
// Fills memory with a pattern, so that a value that is read before it is written shows.
class poisoned_resource final : public gr::resource_adaptor<gr::stream> {
 public:
  explicit poisoned_resource(gr::memory_resource& from) : resource_adaptor(from) {}

 private:
  void* do_allocate(const gr::memory_request& request, gr::stream& on) override {
    void* memory = from().allocate(request, on);
    std::memset(memory, 0xFF, request.bytes);  // a NaN in every floating-point format
    return memory;
  }
  void do_deallocate(void* memory, const gr::memory_request& request, gr::stream& on) noexcept override {
    from().deallocate(memory, request, on);
  }
};
// [/own]

}  // namespace

TEST_CASE("the guide's own resource") {
  gr::stream stream;
  gr::host_resource heap;
  poisoned_resource poisoned(heap);
  gr::context ctx{stream, poisoned};
  const auto x = gr::empty<float, gr::shape<3>>(ctx);
  CHECK(x(1) != x(1));
}

TEST_CASE("the guide's two streams") {
  // [streams]
  using gr::testing::simulated_stream;  // its work runs when a test says so
  simulated_stream compute, copies;
  gr::testing::simulated_memory memory;
  gr::basic_pool_resource<simulated_stream> pool(memory);

  const gr::memory_request request{.bytes = 1 << 20};
  void* p = pool.allocate(request, compute);
  pool.used_on(p, request, copies);  // for a tensor's buffer: buffer.used_on(copies)
  copies.submit();                   // work that reads it
  pool.deallocate(p, request, compute);
  void* q = pool.allocate(request, compute);  // other memory: p is in use
  copies.complete_all();
  void* r = pool.allocate(request, compute);  // now it is not
  // [/streams]
  CHECK(q != p);
  CHECK(r == p);
  pool.deallocate(q, request, compute);
  pool.deallocate(r, request, compute);
}
