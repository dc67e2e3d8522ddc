// The rungs of bench/train as JSON, one a line: number, name, whether it is of the ablation, number of the rung whose
// program runs it, and of the first whose losses it must have.
#include <cstdio>

#include "techniques.hpp"

int main() {
  for (std::size_t r = 0; r < bench::rungs.size(); ++r) {
    const bench::rung& rung = bench::rungs[r];
    std::printf("{\"number\": %zu, \"name\": \"%.*s\", \"without\": %s, \"program\": %zu, \"same\": %zu, \"on\": [", r,
                static_cast<int>(rung.name.size()), rung.name.data(), rung.without ? "true" : "false",
                bench::program_of(r), bench::same_numbers_as(r));
    const char* comma = "";
    for (const bench::technique& t : bench::ladder_of_techniques)
      if (rung.with.*t.on) {
        std::printf("%s\"%.*s\"", comma, static_cast<int>(t.name.size()), t.name.data());
        comma = ", ";
      }
    std::printf("]}\n");
  }
}
