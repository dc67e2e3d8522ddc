// Trains as one rung says: the rungs whose model is that of rung TRAIN_PROGRAM. `NAME` is the rung's number.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "run.hpp"

namespace {

// Whether rung R is one of this program's and the one asked for; if so, it ran.
template <std::size_t R>
bool run_rung([[maybe_unused]] std::size_t wanted, [[maybe_unused]] const bench::run_options& o) {
  if constexpr (bench::program_of(R) == TRAIN_PROGRAM) {
    if (wanted != R) return false;
    bench::print_result(std::string(bench::rungs[R].name).c_str(),
                        bench::run_steps<bench::model_sizes, bench::rungs[R].with>(o));
    return true;
  } else {
    return false;
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    bench::run_options o;
    const std::size_t wanted = std::strtoul(bench::read_arguments(argc, argv, o).c_str(), nullptr, 10);
    const bool found = [&]<std::size_t... R>(std::index_sequence<R...>) {
      return (run_rung<R>(wanted, o) || ...);
    }(std::make_index_sequence<bench::rungs.size()>{});
    if (!found) std::fprintf(stderr, "bench_train: rung %zu is not in this program\n", wanted);
    return found ? 0 : 2;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_train: %s\n", e.what());
    return 1;
  }
}
