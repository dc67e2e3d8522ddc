// encode FILE: reads texts as hexadecimal bytes, one in a line or two and the most ids, and prints for each line what
// compare_tokenizers.py expects of the tokenizer in FILE.

#include <gradus/tokenizer/tokenizer_json.hpp>
#include <iostream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace {

std::string from_hex(std::string_view hex) {
  if (hex == "-") return "";
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

}  // namespace

int main(int argc, char** argv) try {
  const auto tokenizer = gradus::read_tokenizer_json(argc > 1 ? argv[1] : "tokenizer.json");
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string first, second;
    std::size_t most = 0;
    words >> first >> second >> most;
    const auto input =
        most == 0 ? tokenizer.input(from_hex(first)) : tokenizer.input(from_hex(first), from_hex(second), most);
    std::cout << listed(input.ids) << '|' << listed(input.segments) << '|'
              << to_hex(tokenizer.decode(input.ids, gradus::broken_utf8::replace)) << '\n';
  }
  return 0;
} catch (const std::exception& e) {
  std::cerr << e.what() << '\n';
  return 1;
}
