#include "device.hpp"

TEST_CASE("bytes that go up to the GPU, across it and down again come back as they were") {
  if (no_gpu()) return;
  gpu d;
  const auto values = runner<gr::cuda>(d.ctx, std::random_device{}()).random<float>(1013);
  const auto x = gr::from_host<float, gr::shape<1013>>(d.ctx, values.data());
  CHECK(gr::to_host(gr::clone(x)) == values);
  CHECK(gr::to_host(gr::zeros<float, gr::shape<7>>(d.ctx)) == std::vector<float>(7, 0.0f));
  CHECK(gr::item(gr::full<float, gr::shape<>>(d.ctx, 2.5f)) == 2.5f);
}

TEST_CASE("a request that the GPU cannot serve says how much was asked for and how much is free") {
  if (no_gpu()) return;
  gpu d;
  try {
    const auto huge = gr::empty<float, gr::shape<(gr::index{1} << 48)>>(d.ctx);
    CHECK(false);
  } catch (const gr::out_of_memory& e) {
    CHECK(std::string(e.what()).find("asked 1125899906842624 bytes with ") != std::string::npos);
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

TEST_CASE("without a GPU a stream says so in one line") {
  if (gr::cuda_available()) return;
  CHECK_THROWS_WITH_AS(gr::cuda_stream{}, doctest::Contains("gradus::cpu"), gr::error);
}
