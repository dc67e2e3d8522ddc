// A Llama of 15M parameters on 8 texts of 256 tokens; counted in tokens.

#include "language_model.hpp"
#include "shapes.hpp"

template <class D>
using training = bench::language_model<D, bench::small_llama>;

int main(int argc, char** argv) {
  return bench::measure<training>(argc, argv, bench::texts * bench::small_llama.context);
}
