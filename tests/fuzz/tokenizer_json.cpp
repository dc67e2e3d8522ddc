// Tokenizers from elsewhere: what is accepted encodes and decodes, and is written and read back.
#include <cstdlib>
#include <gradus/data/tokenizer_json.hpp>

#include "fuzz.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return gradus_fuzz::attempt([&] {
    const auto tokenizer = gradus::parse_tokenizer_json(gradus_fuzz::text_of(data, size), "input");
    const std::string text = "the cat, 12 <|endoftext|> caf\xc3\xa9 \xff\n\n ";
    if (tokenizer.decode(tokenizer.encode(text, {.added_tokens = false})) != text) std::abort();
    const auto again = gradus::parse_tokenizer_json(gradus::tokenizer_json(tokenizer), "written");
    if (again.encode(text) != tokenizer.encode(text)) std::abort();
  });
}
