// bench_tokenizers TOKENIZER TEXT: encodes the lines of a text on one thread and prints, as JSON, the tokens, a hash of
// them, and the seconds.

#include <cstdint>
#include <cstdio>
#include <ctime>
#include <gradus/io/text_file.hpp>
#include <gradus/run/program.hpp>
#include <gradus/tokenizer/tokenizer_json.hpp>
#include <span>
#include <string>
#include <string_view>

int main(int argc, char** argv) {
  return gradus::run_program("bench_tokenizers", [&] {
    if (argc != 3) throw gradus::bad_flag("name a tokenizer.json and a text");
    const auto tokenizer = gradus::read_tokenizer_json(argv[1]);
    const std::string text = gradus::read_text(argv[2]);
    std::uint64_t tokens = 0, hash = 0;
    const std::clock_t begin = std::clock();
    gradus::token_encoder encoder(tokenizer);
    for (std::string_view rest = text; !rest.empty();) {
      const std::string_view line = rest.substr(0, rest.find('\n') + 1);
      const std::string_view whole = line.empty() ? rest : line;
      encoder.encode(whole, [&](std::span<const std::int32_t> ids) {
        tokens += ids.size();
        for (const std::int32_t id : ids) hash = (hash * 31 + static_cast<std::uint32_t>(id)) % 1000000007;
      });
      rest.remove_prefix(whole.size());
    }
    const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    std::printf("{\"tokens\": %llu, \"hash\": %llu, \"seconds\": %.4f}\n", static_cast<unsigned long long>(tokens),
                static_cast<unsigned long long>(hash), seconds);
    return 0;
  });
}
