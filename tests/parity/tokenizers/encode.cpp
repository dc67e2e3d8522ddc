// encode normalize FLAGS | llama3 FILE | wordpiece FILE LENGTH: reads texts as hexadecimal bytes, one or two in a line,
// and prints for each line what compare_bert_llama3.py expects. FLAGS are four digits 0 or 1, as in bert_normalizer.

#include <cstdint>
#include <gradus/data/tokenizer_json.hpp>
#include <gradus/data/wordpiece_json.hpp>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

namespace {

std::string from_hex(std::string_view hex) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  std::string text;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    text += static_cast<char>(static_cast<unsigned char>(digit(hex[i]) * 16 + digit(hex[i + 1])));
  return text;
}
std::string to_hex(std::string_view text) {
  std::string hex;
  for (const char c : text)
    for (const int half : {static_cast<unsigned char>(c) / 16, static_cast<unsigned char>(c) % 16})
      hex += "0123456789abcdef"[half];
  return hex;
}
std::string listed(const std::vector<std::int32_t>& numbers) {
  std::string text;
  for (const std::int32_t n : numbers) text.append(text.empty() ? "" : " ").append(std::to_string(n));
  return text;
}

template <class F>
void for_each_line(const F& f) {
  for (std::string line; std::getline(std::cin, line);) std::cout << f(line) << '\n';
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string what = argc > 2 ? argv[1] : "";
  if (what == "normalize") {
    const auto flag = [&](int i) { return argv[2][i] == '1'; };
    const gradus::bert_normalizer normalize{flag(0), flag(1), flag(2), flag(3)};
    for_each_line([&](const std::string& line) {
      const std::string text = normalize(from_hex(line));
      std::string all = to_hex(text);
      gradus::bert_splitter words(text);
      for (auto word = words.next(); !word.empty(); word = words.next()) all += "|" + to_hex(word);
      return all;
    });
  } else if (what == "llama3") {
    const auto tokenizer = gradus::read_tokenizer_json(argv[2]);
    for_each_line([&](const std::string& line) {
      return listed(tokenizer.encode(from_hex(line), {.broken = gradus::broken_utf8::replace}));
    });
  } else if (what == "wordpiece" && argc > 3) {
    const auto tokenizer = gradus::read_wordpiece_json(argv[2]);
    const std::size_t length = std::stoul(argv[3]);
    for_each_line([&](const std::string& line) {
      const std::size_t space = line.find(' ');
      const std::string first = from_hex(line.substr(0, space));
      const auto input = space == std::string::npos
                             ? tokenizer.model_input(first, length)
                             : tokenizer.model_input(first, from_hex(line.substr(space + 1)), length);
      return listed(input.ids) + "|" + listed(input.segments) + "|" + to_hex(tokenizer.decode(input.ids));
    });
  }
  return 0;
} catch (const std::exception& e) {
  std::cerr << e.what() << '\n';
  return 1;
}
