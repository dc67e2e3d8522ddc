// Runs every part, and every part on what another one made. Prints what is wrong.
#include <cmath>
#include <cstdio>
#include <iterator>

#include "part.hpp"

extern const part part_0, part_1, part_2, part_3, part_4;

namespace {

int failures = 0;
void expect(bool right, const part& a, const part& b, const char* what, double found) {
  if (right) return;
  std::printf("parts '%s' and '%s': %s: %.9g\n", a.flags, b.flags, what, found);
  ++failures;
}
void expect_own(const part& p, const char* what, trace seen) {
  if (seen.part == p.number && seen.bytes == p.bytes) return;
  std::printf("part '%s' (%zu bytes): %s ran in part %d, %zu bytes\n", p.flags, p.bytes, what, seen.part, seen.bytes);
  ++failures;
}
double norm(const auto& x) {
  double sum = 0;
  for (const float v : gradus::to_host(x)) sum += static_cast<double>(v) * static_cast<double>(v);
  return std::sqrt(sum);
}
bool near(double a, double b) { return std::abs(a - b) <= 1e-5 * std::abs(b); }

}  // namespace

int main() {
  const part* parts[] = {&part_0, &part_1, &part_2, &part_3, &part_4};
  gradus::stream stream;
  gradus::host_resource heap;
  gradus::context ctx{stream, heap};
  gradus::set_thread_count(stream, 2);

  double wanted_result = 0, wanted_gradient = 0, wanted_weight = 0;
  for (const part* a : parts) {
    const matrix x = a->make(ctx);
    expect_own(*a, "forward", a->forward(x));
    expect_own(*a, "backward", a->backward(ctx, x));
    expect(a->sum(ctx) == 100003, *a, *a, "100003 ones sum to", static_cast<double>(a->sum(ctx)));
    for (const part* b : parts) {
      model m;
      gradus::init(m, ctx, gradus::normal_init{.seed = 1});
      const double result_norm = norm(b->run(x, m));
      recording tape{ctx};
      b->unwind(a->record(tape, x, m));
      const double gradient = norm(m.weight.gradient());
      updates u{m};
      b->update(ctx, u);
      const double weight = norm(m.weight.value());
      if (wanted_result == 0) wanted_result = result_norm, wanted_gradient = gradient, wanted_weight = weight;
      expect(near(result_norm, wanted_result), *a, *b, "norm of the result", result_norm);
      expect(near(gradient, wanted_gradient), *a, *b, "norm of the gradient", gradient);
      expect(near(weight, wanted_weight), *a, *b, "norm of the weight", weight);
    }
  }
  return failures == 0 ? 0 : 1;
}
