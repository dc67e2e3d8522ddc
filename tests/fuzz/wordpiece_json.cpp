// Tokenizers of BERT's kind from elsewhere: what is accepted encodes and decodes, and is written and read back.
#include <cstdlib>
#include <gradus/data/wordpiece_json.hpp>

#include "fuzz.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return gradus_fuzz::attempt([&] {
    const auto tokenizer = gradus::parse_wordpiece_json(gradus_fuzz::text_of(data, size), "input");
    const std::string text = "The cats, unaffable [MASK] \xc3\x89t\xc3\xa9 \xe4\xb8\xad \xff\n\n ";
    const auto ids = tokenizer.model_input(text, "cat", 12).ids;
    if (ids.size() > 12) std::abort();
    (void)tokenizer.decode(ids);
    const auto again = gradus::parse_wordpiece_json(gradus::wordpiece_json(tokenizer), "written");
    if (again.model_input(text, "cat", 12).ids != ids) std::abort();
  });
}
