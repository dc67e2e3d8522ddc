// Examples from elsewhere, as lines of JSON and as tables, encoded as tokens.
#include <cstdlib>
#include <gradus/data/token_examples.hpp>

#include "fuzz.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  gradus::example_encoder encoder(nullptr, gradus::chat_format_named("llama2"));
  for (const char* kind : {".jsonl", ".csv", ".tsv", ".txt"}) {
    const gradus_fuzz::input_file input(data, size, kind);
    gradus_fuzz::attempt([&] {
      const auto read = gradus::read_token_examples(std::array{input.path()}, encoder, 64);
      for (const gradus::token_example& e : read.examples)
        if (e.tokens.size() > 64 || e.tokens.size() != e.is_target.size() || e.targets() == 0) std::abort();
    });
  }
  return 0;
}
