// Tokenizers from elsewhere: what is accepted encodes and decodes, and is written and read back.
#include <cstdlib>
#include <gradus/tokenizer/tokenizer_json.hpp>

#include "fuzz.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return gradus_fuzz::attempt([&] {
    const auto tokenizer = gradus::parse_tokenizer_json(gradus_fuzz::text_of(data, size), "input");
    const std::string text =
        "The cats, unaffable 12 [MASK] <|endoftext|> \xc3\x89t\xc3\xa9 e\xcc\x81 \xe4\xb8\xad \xff\n\n ";
    const auto ids = tokenizer.encode(text);
    (void)tokenizer.decode(ids);
    for (const auto id : ids) (void)tokenizer.bytes_of(id);
    const auto again = gradus::parse_tokenizer_json(gradus::tokenizer_json(tokenizer), "written");
    if (again.encode(text) != ids || gradus::tokenizer_json(again) != gradus::tokenizer_json(tokenizer)) std::abort();
    if (tokenizer.input(text, "cat", 12).ids.size() > 12) std::abort();
  });
}
