#pragma once
// What the GPU's tests share: memory that is poisoned before it is handed out, and the comparison with the CPU.
#include <doctest/doctest.h>

#include <cstdio>
#include <gradus/cuda.hpp>
#include <random>
#include <vector>

#include "../support/seed.hpp"
#include "cases.hpp"

/// GPU memory whose every byte is 0xFF when it is handed out, a NaN in all floating formats: what a kernel fails to
/// write shows.
class poisoned_resource final : public gr::resource_adaptor<gr::cuda_stream> {
 public:
  explicit poisoned_resource(gr::cuda_resource& from) : resource_adaptor(from) {}

 private:
  void* do_allocate(const gr::memory_request& request, gr::cuda_stream& on) override {
    void* memory = this->from().allocate(request, on);
    gr::cuda_kit::check(cudaMemsetAsync(memory, 0xFF, request.bytes, on.handle()), "cudaMemsetAsync");
    return memory;
  }
  void do_deallocate(void* memory, const gr::memory_request& request, gr::cuda_stream& on) noexcept override {
    this->from().deallocate(memory, request, on);
  }
};

struct gpu {
  gr::cuda_stream stream;
  gr::device_resource memory;
  poisoned_resource poisoned{memory};
  gr::context<gr::cuda> ctx{stream, poisoned};
};

/// True, and counted, where there is no GPU: scripts/test.sh reads the line that is printed at the program's end.
struct skipped_cases {
  int count = 0;
  ~skipped_cases() {
    if (count > 0) std::printf("gradus skipped: %d (no GPU: %s)\n", count, gr::cuda_unavailable_reason().c_str());
  }
};
inline skipped_cases skipped;
inline bool no_gpu() {
  if (gr::cuda_available()) return false;
  ++skipped.count;
  return true;
}

inline void agree(const std::vector<record>& got, const std::vector<record>& expected) {
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    CAPTURE(expected[i].name);
    REQUIRE(got[i].values.size() == expected[i].values.size());
    CHECK(relative_error(got[i].values, expected[i].values) < expected[i].tolerance);
  }
}
inline void same_bits(const std::vector<record>& a, const std::vector<record>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    CAPTURE(a[i].name);
    CHECK(a[i].values == b[i].values);
  }
}

/// Runs the cases on the GPU, twice, with inputs that nobody saw before, and holds the results against the CPU's and
/// each other.
template <class F>
void agree(std::vector<record> (*on_cpu)(unsigned), const F& cases) {
  const unsigned seed = gradus_test::fresh_seed();
  CAPTURE(seed);
  gpu g;
  const auto run = [&] {
    runner<gr::cuda> r(g.ctx, seed);
    cases(r);
    return std::move(r.records);
  };
  const auto got = run();
  same_bits(got, run());
  agree(got, on_cpu(seed));
}
