// What a program and the shared library must agree about: the types of exceptions, and the objects of a stream.
#include <cstdio>
#include <gradus/gradus.hpp>

#if !GRADUS_KERNELS_COMPILED
#error "compile with the flags of gradus-compiled.pc, with optimisation and for no processor"
#endif

namespace gr = gradus;

struct counting : gr::cpu_kit::loop_observer {
  int loops = 0;
  void loop(gr::index_t tasks, const gr::cpu_kit::task_runner& run) override {
    ++loops;
    for (gr::index_t task = 0; task < tasks; ++task) run(task);
  }
};

int main() {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};

  // A product, whose kernel is the library's, runs on the threads that the program knows.
  counting loops;
  stream.get<gr::cpu_kit::workers>().observe(&loops);
  const auto a = gr::full<float, gr::shape<64, 64>>(ctx, 1.0f);
  const int before = loops.loops;
  const auto product = gr::matmul(a, a);
  if (loops.loops == before || product(5, 7) != 64.0f) {
    std::printf("the library's kernels run on other threads\n");
    return 1;
  }
  stream.get<gr::cpu_kit::workers>().observe(nullptr);

  try {
    gr::cross_entropy(a, gr::full<std::int32_t, gr::shape<64>>(ctx, 64));
  } catch (const gr::error& e) {
    std::printf("the library says: %s\n", e.what());
    return 0;
  }
  std::printf("the library throws nothing for a target that is out of range\n");
  return 1;
}
