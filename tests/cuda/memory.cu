#include <algorithm>
#include <atomic>
#include <thread>

#include "../support/message_of.hpp"
#include "device.hpp"

namespace {

constexpr gr::memory_request mebibyte{.bytes = std::size_t{1} << 20};

// Holds a stream's later work back until it opens, which it does at its end at the latest.
class gate {
 public:
  explicit gate(std::atomic<bool>& open) : open_(&open) {}
  gate(const gate&) = delete;
  gate& operator=(const gate&) = delete;
  ~gate() { open(); }
  void hold(gr::cuda_stream& s) {
    gr::cuda_kit::check(cudaLaunchHostFunc(
                            s.handle(),
                            [](void* open) {
                              while (!static_cast<std::atomic<bool>*>(open)->load()) std::this_thread::yield();
                            },
                            open_),
                        "cudaLaunchHostFunc");
  }
  void open() { *open_ = true; }

 private:
  std::atomic<bool>* open_;
};

struct two_streams {
  std::atomic<bool> opened{false};
  gr::cuda_stream a, b;
  gr::device_resource memory;
  gr::basic_pool_resource<gr::cuda_stream> pool{memory, mebibyte.bytes};
  gate door{opened};
};

}  // namespace

TEST_CASE("bytes that go up to the GPU, across it and down again come back as they were") {
  if (no_gpu()) return;
  gpu d;
  const auto values = runner<gr::cuda>(d.ctx, gradus_test::fresh_seed()).random<float>(1013);
  const auto x = gr::from_host<float, gr::shape<1013>>(d.ctx, values.data());
  CHECK(gr::to_host(gr::clone(x)) == values);
  CHECK(gr::to_host(gr::zeros<float, gr::shape<7>>(d.ctx)) == std::vector<float>(7, 0.0f));
  CHECK(gr::item(gr::full<float, gr::shape<>>(d.ctx, 2.5f)) == 2.5f);
}

TEST_CASE("copies through pinned memory are submitted, and waited for when their values are asked for") {
  if (no_gpu()) return;
  std::atomic<bool> opened{false};
  gpu d;
  gate door{opened};
  const auto values = runner<gr::cuda>(d.ctx, gradus_test::fresh_seed()).random<float>(1013);
  auto x = gr::empty<float, gr::shape<1013>>(d.ctx);
  gr::staging_buffer<float, gr::cuda> up(d.ctx, 1013), down(d.ctx, 1015);
  std::ranges::copy(values, up.values().begin());
  door.hold(d.stream);
  up.upload(x);
  down.download(x, 2);
  CHECK_FALSE(up.arrived());
  CHECK_FALSE(down.arrived());
  door.open();
  const auto found = down.values();
  CHECK(std::vector<float>(found.begin() + 2, found.end()) == values);
  CHECK(up.arrived());
}

TEST_CASE("a request that the GPU cannot serve says how much was asked for and how much is free") {
  if (no_gpu()) return;
  gpu d;
  try {
    const auto huge = gr::empty<float, gr::shape<(gr::index_t{1} << 48)>>(d.ctx);
    CHECK(false);
  } catch (const gr::out_of_memory& e) {
    CHECK(std::string(e.what()).find("asked 1125899906842624 bytes (1073741824.00 MiB) for ") != std::string::npos);
  }
  CHECK(gr::item(gr::full<float, gr::shape<>>(d.ctx, 1.0f)) == 1.0f);  // and the context goes on
}

TEST_CASE("memory that is given back is handed out again without growing the pool") {
  if (no_gpu()) return;
  gpu d;
  gr::context ctx{d.stream, d.memory};
  for (int i = 0; i < 100; ++i) static_cast<void>(gr::zeros<float, gr::shape<1 << 20>>(ctx));
  d.stream.synchronize();
  CHECK(d.memory.peak_bytes() <= (std::size_t{32} << 20));
}

TEST_CASE("what a busy stream gave back goes to another stream, which waits for it while the host does not") {
  if (no_gpu()) return;
  two_streams t;
  void* p = t.pool.allocate(mebibyte, t.a);
  t.door.hold(t.a);
  t.pool.deallocate(p, mebibyte, t.a);
  CHECK(t.pool.allocate(mebibyte, t.b) == p);
  gr::cuda_event after;
  CHECK(after.done());
  t.b.record(after);
  CHECK_FALSE(after.done());
  t.door.open();
  after.synchronize();
  CHECK(after.done());
  t.pool.deallocate(p, mebibyte, t.b);
}

TEST_CASE("what a step gave back while it was captured goes to another stream, and back to the GPU") {
  if (no_gpu()) return;
  two_streams t;
  gr::context<gr::cuda> ctx{t.a, t.pool}, beside{t.b, t.pool};
  gr::step_graph graph{ctx};
  for (int i = 0; i < 3; ++i)
    graph.run([&] { static_cast<void>(gr::relu(gr::full<float, gr::shape<1000>>(ctx, 1.0f)) + 1.0f); });
  CHECK(graph.made() == 1);
  const std::size_t reserved = t.pool.reserved_bytes();
  {
    const auto x = gr::full<float, gr::shape<1000>>(beside, 2.0f);
    CHECK(t.pool.reserved_bytes() == reserved);
    CHECK(gr::to_host(x) == std::vector<float>(1000, 2.0f));
  }
  // A mark that was made in a capture: nothing is known of it before the capture ends, and then it is behind all that
  // the stream has.
  gr::cuda_event mark;
  bool known = true;
  for (int i = 0; i < 2; ++i)
    graph.run([&] {
      t.a.record(mark);
      if (i == 1) known = mark.done();
    });
  CHECK_FALSE(known);
  t.b.wait(mark);
  mark.synchronize();
  CHECK(mark.done());
  t.pool.release();
  CHECK(t.pool.reserved_bytes() == 0);
}

TEST_CASE("a mark may be asked about and waited for within a captured step, which is not disturbed") {
  if (no_gpu()) return;
  two_streams t;
  gr::context<gr::cuda> ctx{t.a, t.pool}, beside{t.b, t.pool};
  void* const p = t.pool.allocate(mebibyte, t.b);
  t.door.hold(t.b);
  gr::cuda_event before, within;
  t.b.record(before);
  gr::step_graph graph{ctx};
  auto x = gr::zeros<float, gr::shape<1000>>(ctx);
  bool known = false, early = true;
  std::string refusal;
  int runs = 0;
  const auto step = [&] {
    if (runs++ == 0) return;  // the first one is not captured
    early = before.done();    // of a stream that is not captured: it may be asked about
    t.a.record(within);
    known = within.done();
    refusal = gradus_test::message_of([&] { within.synchronize(); });
    // Memory that another stream gave back while it was busy: the host waits for that one, for the graph cannot.
    t.pool.deallocate(p, mebibyte, t.b);
    t.door.open();
    void* const again = t.pool.allocate(mebibyte, t.a);
    CHECK(again == p);
    t.pool.deallocate(again, mebibyte, t.a);
    gr::device_access<gr::cuda>::fill(ctx, x.data(), 3.0f, 1000);
  };
  graph.run(step);
  graph.run(step);
  CHECK_FALSE(early);
  CHECK_FALSE(known);
  CHECK(refusal.find("within the captured step") != std::string::npos);
  CHECK(cudaPeekAtLastError() == cudaSuccess);  // an answer, which the next launch does not report
  CHECK(gr::to_host(x) == std::vector<float>(1000, 3.0f));
  within.synchronize();
  CHECK(within.done());
}

TEST_CASE("memory that a busy second stream uses is not handed out before that stream is done") {
  if (no_gpu()) return;
  two_streams t;
  void* p = t.pool.allocate(mebibyte, t.a);
  t.pool.used_on(p, mebibyte, t.b);
  t.door.hold(t.b);
  t.pool.deallocate(p, mebibyte, t.a);
  t.a.synchronize();
  void* q = t.pool.allocate(mebibyte, t.a);
  CHECK(q != p);
  t.door.open();
  t.b.synchronize();
  CHECK(t.pool.allocate(mebibyte, t.a) == p);
  t.pool.deallocate(p, mebibyte, t.a);
  t.pool.deallocate(q, mebibyte, t.a);
}

TEST_CASE("the driver's allocator, too, keeps memory that a second stream uses") {
  if (no_gpu()) return;
  two_streams t;
  void* p = t.memory.allocate(mebibyte, t.a);
  t.memory.used_on(p, mebibyte, t.b);
  t.door.hold(t.b);
  t.memory.deallocate(p, mebibyte, t.a);
  gr::cuda_event given_back;
  t.a.record(given_back);
  CHECK_FALSE(given_back.done());  // the stream waits before it gives the memory back
  t.door.open();
  t.a.synchronize();
  CHECK(given_back.done());
}

TEST_CASE("what a second stream reads of memory that was given back is what was there") {
  if (no_gpu()) return;
  two_streams t;
  void* p = t.memory.allocate(mebibyte, t.a);
  gr::cuda_kit::check(cudaMemsetAsync(p, 1, mebibyte.bytes, t.a.handle()), "cudaMemsetAsync");
  gr::cuda_event filled;
  t.a.record(filled);
  t.b.wait(filled);
  t.memory.used_on(p, mebibyte, t.b);
  t.door.hold(t.b);
  void* read = t.memory.allocate(mebibyte, t.b);
  gr::cuda_kit::check(cudaMemcpyAsync(read, p, mebibyte.bytes, cudaMemcpyDeviceToDevice, t.b.handle()),
                      "cudaMemcpyAsync");
  t.memory.deallocate(p, mebibyte, t.a);
  void* next = t.memory.allocate(mebibyte, t.a);
  gr::cuda_kit::check(cudaMemsetAsync(next, 2, mebibyte.bytes, t.a.handle()), "cudaMemsetAsync");
  t.door.open();
  t.a.synchronize();
  std::vector<unsigned char> found(mebibyte.bytes);
  gr::cuda_kit::check(cudaMemcpyAsync(found.data(), read, found.size(), cudaMemcpyDeviceToHost, t.b.handle()),
                      "cudaMemcpyAsync");
  t.b.synchronize();
  CHECK(found == std::vector<unsigned char>(found.size(), 1));
  t.memory.deallocate(read, mebibyte, t.b);
  t.memory.deallocate(next, mebibyte, t.a);
}

namespace {
__global__ void never_started(int* /*nothing*/) {}
template <class T>
__global__ void never_started_of(T /*nothing*/) {}
}  // namespace

TEST_CASE("a kernel that cannot be started is named, with its grid, and the context goes on") {
  if (no_gpu()) return;
  gpu d;
  int* const nothing = nullptr;
  CHECK_THROWS_WITH_AS(gr::launch(d.ctx, &never_started, 3, 2000, nothing),
                       doctest::Contains("never_started in 3 x 1 x 1 blocks of 2000 x 1 x 1 threads: "), gr::error);
  CHECK_THROWS_WITH_AS(gr::launch(d.ctx, &never_started_of<float>, 3, 2000, 1.0f),
                       doctest::Contains("never_started_of in 3 x"), gr::error);
  CHECK(gr::item(gr::full<float, gr::shape<>>(d.ctx, 1.0f)) == 1.0f);
}

TEST_CASE("an error that the program has not asked for yet disturbs nothing, and is still there afterwards") {
  if (no_gpu()) return;
  gpu d;
  const cudaStream_t nowhere = nullptr;
  int* const nothing = nullptr;
  never_started<<<3, 2000, 0, nowhere>>>(nothing);  // too many threads: the program's own mistake
  REQUIRE(cudaPeekAtLastError() == cudaErrorInvalidConfiguration);
  const auto x = gr::full<float, gr::shape<10, 4>>(d.ctx, 1.0f);
  const std::vector<std::int32_t> tokens{3, 1, 3};
  gr::tape tape{d.ctx};
  const auto table = tape.variable(gr::clone(x));
  gr::backward(gr::sum(gr::embedding(gr::from_host<std::int32_t, gr::shape<3>>(d.ctx, tokens.data()), table)));
  gr::basic_pool_resource<gr::cuda_stream> pool(d.poisoned);
  gr::context<gr::cuda> transient{d.stream, pool};
  const auto y = gr::full<float, gr::shape<10, 4>>(transient, 1.0f);
  gr::step_graph graph{transient};
  for (int i = 0; i < 3; ++i) graph.run([&] { static_cast<void>(y + 1.0f); });
  CHECK(gr::item(gr::sum(table.gradient())) == 12);
  CHECK(gr::to_host(table.gradient())[12] == 2);
  CHECK(cudaGetLastError() == cudaErrorInvalidConfiguration);
}

TEST_CASE("without a GPU a stream says so in one line") {
  if (gr::cuda_available()) return;
  CHECK_THROWS_WITH_AS(gr::cuda_stream{}, doctest::Contains("gradus::cpu"), gr::error);
}
