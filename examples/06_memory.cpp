// Lesson 6: where memory comes from. Resources stack: each one serves requests from the one below and adds a thing of
// its own.

#include <cstdio>
#include <gradus/gradus.hpp>

namespace gr = gradus;

int main() {
  gr::stream stream;
  gr::host_resource heap;                    // the operating system
  gr::limit_resource limit(heap, 24 << 20);  // refuses to hold more than 24 MiB
  gr::pool_resource pool(limit, 4 << 20);    // keeps memory for reuse, in segments of 4 MiB
  gr::stats_resource memory(pool);           // counts by category
  gr::context ctx{stream, memory};           // what allocates here goes through all four

  // A layer of 512 x 512 trained for a few steps. After the first one the operating system is not asked again.
  gr::nn::linear<gr::on<gr::cpu>, 512, 512> layer;
  gr::init(layer, ctx, gr::normal_init{});
  gr::adamw optimizer{layer};
  gr::tape tape{ctx};
  const auto x = gr::normal<float, gr::shape<64, 512>>(ctx, {.seed = 1});
  for (int step = 1; step <= 3; ++step) {
    const auto y = layer(tape.watch(x));
    gr::backward(gr::mean(y * y));
    optimizer.step(ctx);
    std::printf("step %d: %zu bytes live, %zu kept by the pool\n", step, memory.all().live, pool.cached_bytes());
  }

  // What was live when most was, by category.
  std::printf("peak: %s\n", gr::bytes_text(memory.all().peak).c_str());
  for (std::size_t i = 0; i < gr::category_count; ++i) {
    const auto what = static_cast<gr::category>(i);
    std::printf("  %-15s %9zu\n", gr::category_name(what).data(), memory.at_peak(what));
  }

  // More than there is: one line says what was asked for and what would fit, and the program can go on.
  const auto column = gr::zeros<float, gr::shape<4096, 1>>(ctx);
  const auto row = gr::zeros<float, gr::shape<1, 2048>>(ctx);
  try {
    const auto product = gr::matmul(column, row);
    return 1;
  } catch (const gr::out_of_memory& e) { std::printf("%s\n", e.what()); }
  return memory.all().live < memory.all().peak ? 0 : 1;
}
