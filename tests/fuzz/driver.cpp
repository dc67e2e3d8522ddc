// driver CORPUS RUNS: calls a fuzz target with each file of the folder CORPUS, and with RUNS inputs that are made from
// them by small damages, other ones in every run, and the same ones again with GRADUS_TEST_SEED. For compilers without
// libFuzzer, and for the tests. An input that ends the program is written to fuzz-finding in the current folder.

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <random>
#include <vector>

#include "fuzz.hpp"

namespace {

using bytes = std::vector<std::uint8_t>;
bytes current;

void keep_finding() {
  if (std::FILE* f = std::fopen("fuzz-finding", "wb")) {
    std::fwrite(current.data(), 1, current.size(), f);
    std::fclose(f);
  }
  std::fputs("the input that did it is in fuzz-finding\n", stderr);
}
extern "C" void on_signal(int signal) {
  keep_finding();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void damage(bytes& b, const std::vector<bytes>& seeds, std::mt19937_64& random) {
  const auto place = [&](std::size_t n) { return n == 0 ? 0 : static_cast<std::size_t>(random() % n); };
  const auto at = [&](std::size_t i) { return b.begin() + static_cast<std::ptrdiff_t>(i); };
  const std::size_t i = place(b.size());
  switch (random() % 8) {
    case 0:
      if (!b.empty()) b[i] ^= static_cast<std::uint8_t>(1u << random() % 8);
      break;
    case 1:
      if (!b.empty()) b[i] = static_cast<std::uint8_t>(random());
      break;
    case 2:
      b.insert(at(i), static_cast<std::uint8_t>(random()));
      break;
    case 3:
      if (!b.empty()) b.erase(at(i), at(i + 1 + place(std::min<std::size_t>(b.size() - i, 16))));
      break;
    case 4:
      b.resize(i);
      break;
    case 5:  // a part of another seed in its place
      if (const bytes& other = seeds[place(seeds.size())]; !other.empty()) {
        const std::size_t from = place(other.size()), count = place(std::min<std::size_t>(other.size() - from, 64));
        b.insert(at(i), other.begin() + static_cast<std::ptrdiff_t>(from),
                 other.begin() + static_cast<std::ptrdiff_t>(from + count));
      }
      break;
    case 6:  // numbers that break sums and products
      if (b.size() >= 8) {
        const std::uint64_t numbers[] = {0, 1, 0x7fffffff, 0x80000000, 0xffffffff, 0x7fffffffffffffff, ~0ull, b.size()};
        const std::uint64_t n = numbers[random() % 8];
        for (std::size_t k = 0, start = place(b.size() - 7); k < 8; ++k)
          b[start + k] = static_cast<std::uint8_t>(n >> 8 * k);
      }
      break;
    default:  // a digit
      if (const auto digit = std::find_if(at(i), b.end(), [](auto c) { return c >= '0' && c <= '9'; });
          digit != b.end())
        *digit = static_cast<std::uint8_t>('0' + random() % 10);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s CORPUS RUNS\n", argv[0]);
    return 2;
  }
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) files.push_back(entry.path());
  std::ranges::sort(files);  // folders have no order
  std::vector<bytes> seeds;
  for (const auto& file : files) {
    std::ifstream in(file, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  if (seeds.empty()) {
    std::fprintf(stderr, "%s: has no files to begin with\n", argv[1]);
    return 2;
  }
  for (const int signal : {SIGSEGV, SIGABRT, SIGFPE, SIGBUS}) std::signal(signal, on_signal);
  const char* const given = std::getenv("GRADUS_TEST_SEED");
  const std::uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  const long runs = std::strtol(argv[2], nullptr, 10);
  try {
    for (const bytes& s : seeds) {
      current = s;
      LLVMFuzzerTestOneInput(current.data(), current.size());
    }
    for (long run = 0; run < runs; ++run) {
      current = seeds[static_cast<std::size_t>(random() % seeds.size())];
      for (auto n = 1 + random() % 4; n > 0; --n) damage(current, seeds, random);
      LLVMFuzzerTestOneInput(current.data(), current.size());
    }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "not gradus::error, but: %s\n", e.what());
    keep_finding();
    return 1;
  }
  std::printf("%zu files and %ld inputs made from them: nothing but gradus::error\n", seeds.size(), runs);
}
