// Trains with each optimizer of the library, and otherwise as the last rung of the ladder that has states in float.
// `NAME` is the optimizer's.
#include <cstdio>
#include <string>

#include "run.hpp"

namespace {

constexpr bench::techniques base = [] {
  bench::techniques t = bench::first_techniques(bench::technique_count);
  t.checkpoint = t.optimizer_8bit = t.bf16_weights = false;
  return t;
}();

template <template <class, class, class> class Optimizer>
bool run(const char* name, const std::string& wanted, const bench::run_options& o) {
  if (wanted != name) return false;
  bench::print_result(name, bench::run_steps<bench::model_sizes, base, bench::fused<Optimizer>>(o));
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    bench::run_options o;
    const std::string wanted = bench::read_arguments(argc, argv, o);
    if (run<gradus::sgd>("sgd", wanted, o) || run<gradus::lion>("lion", wanted, o) ||
        run<gradus::adamw>("adamw", wanted, o) || run<gradus::any_precision_adamw>("any_precision_adamw", wanted, o) ||
        run<gradus::adamw_8bit>("adamw_8bit", wanted, o) || run<gradus::adafactor>("adafactor", wanted, o) ||
        run<gradus::muon>("muon", wanted, o))
      return 0;
    std::fprintf(stderr, "bench_train: no optimizer '%s'\n", wanted.c_str());
    return 2;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_train: %s\n", e.what());
    return 1;
  }
}
