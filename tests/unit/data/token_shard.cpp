#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <gradus/data/token_shard.hpp>
#include <random>
#include <string>
#include <vector>

#include "../../support/scratch_folder.hpp"
#include "../../support/seed.hpp"

namespace fs = std::filesystem;
using gradus::shard_layout;
using gradus::token_shard;

namespace {

struct folder : gradus_test::scratch_folder {
  fs::path file(const std::string& bytes) const {
    std::ofstream(path / "shard.bin", std::ios::binary) << bytes;
    return path / "shard.bin";
  }
};

std::string bytes_of(const void* data, std::size_t count) { return {static_cast<const char*>(data), count}; }

// llm.c's layout, written by hand.
template <class Token>
std::string llm_c(std::int32_t magic, std::int32_t version, std::int32_t count, const std::vector<Token>& tokens) {
  std::array<std::int32_t, 256> header{magic, version, count};
  return bytes_of(header.data(), sizeof header) + bytes_of(tokens.data(), tokens.size() * sizeof(Token));
}

template <class Token>
std::vector<Token> tokens_in(const token_shard& shard) {
  return shard.tokens().visit([](auto tokens) { return std::vector<Token>(tokens.begin(), tokens.end()); });
}

}  // namespace

TEST_CASE("tokens come back from a shard, whatever the layout and in whatever parts they were written") {
  const folder f;
  std::mt19937 random(gradus_test::fresh_seed());
  const auto check = [&]<class Token>(shard_layout layout, Token most) {
    std::vector<Token> tokens(1 + random() % 5000);
    for (auto& t : tokens) t = static_cast<Token>(random() % (static_cast<std::uint64_t>(most) + 1));
    tokens[0] = 7;  // not the start of a header
    gradus::token_shard_writer writer(f.path / "a.bin", layout);
    for (std::size_t at = 0; at < tokens.size();) {
      const std::size_t some = std::min<std::size_t>(random() % 1000, tokens.size() - at);
      writer.write(std::span(tokens).subspan(at, some));
      at += some;
    }
    CHECK(writer.count() == tokens.size());
    writer.commit();
    const token_shard shard(f.path / "a.bin");
    CHECK(shard.layout() == layout);
    CHECK(shard.tokens().token_bytes() == (layout == shard_layout::llm_c_32 ? 4 : 2));
    CHECK(tokens_in<Token>(shard) == tokens);
  };
  for (int round = 0; round < 20; ++round)
    for (const auto layout : {shard_layout::nanogpt, shard_layout::llm_c, shard_layout::llm_c_32}) {
      check(layout, std::uint16_t{65535});
      check(layout, std::int32_t{layout == shard_layout::llm_c_32 ? 2147483647 : 65535});
    }
}

TEST_CASE("the layouts are those of nanoGPT and llm.c, byte for byte") {
  const folder f;
  const std::vector<std::int32_t> tokens{1, 256, 50256};
  const std::vector<std::uint16_t> narrow(tokens.begin(), tokens.end());
  for (const auto& [layout, bytes] : {std::pair(shard_layout::nanogpt, std::string("\1\0\0\1\x50\xc4", 6)),
                                      std::pair(shard_layout::llm_c, llm_c(20240520, 1, 3, narrow)),
                                      std::pair(shard_layout::llm_c_32, llm_c(20240801, 7, 3, tokens))}) {
    gradus::token_shard_writer writer(f.path / "a.bin", layout);
    writer.write(tokens);
    writer.commit();
    std::ifstream in(f.path / "a.bin", std::ios::binary);
    CHECK(std::string{std::istreambuf_iterator<char>(in), {}} == bytes);
  }
}

TEST_CASE("a token that the layout has no room for is not written") {
  const folder f;
  for (const auto layout : {shard_layout::nanogpt, shard_layout::llm_c}) {
    gradus::token_shard_writer writer(f.path / "a.bin", layout);
    CHECK_THROWS_WITH_AS(writer.write(std::vector<std::int32_t>{5, 65536}),
                         ((f.path / "a.bin").string() + ": the token 65536 does not fit into 16 bits").c_str(),
                         gradus::error);
    CHECK_THROWS_AS(writer.write(std::vector<std::int32_t>{-1}), gradus::error);
  }
}

TEST_CASE("a shard that is not whole, or lies about itself, is refused in one line") {
  const folder f;
  const std::vector<std::uint16_t> tokens(10, 3);
  const auto refused = [&](const std::string& bytes, const char* message) {
    CHECK_THROWS_WITH_AS(token_shard(f.file(bytes)), ((f.path / "shard.bin").string() + ": " + message).c_str(),
                         gradus::error);
  };
  refused(std::string(1027, 'x'), "1027 bytes is not a whole number of uint16 tokens");
  refused("", "is empty");
  refused(std::string("\x93NUMPY\1\0v\0", 10),
          "begins with a header of NumPy; only tokens without a header or with llm.c's are read: write them by "
          ".astype('uint16').tofile()");
  std::string wide;
  for (const char token : {'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i'}) wide += token + std::string(3, '\0');
  refused(wide,
          "every second token is 0: it seems to hold tokens of 32 bits, which are read only after llm.c's header "
          "for Llama 3");
  refused(llm_c<std::uint16_t>(20240520, 1, 0, {}), "holds no tokens");
  refused(llm_c(20240520, 2, 10, tokens),
          "has version 2 of llm.c's layout for tokens of 16 bits; only version 1 is read");
  refused(llm_c(20240520, 1, -1, tokens), "its header says -1 tokens");
  refused(llm_c(20240520, 1, 11, tokens), "its header says 11 tokens, that is 22 bytes, and 20 follow");
  refused(llm_c(20240520, 1, 9, tokens), "its header says 9 tokens, that is 18 bytes, and 20 follow");
  refused(llm_c(20240520, 1, 2147483647, tokens),
          "its header says 2147483647 tokens, that is 4294967294 bytes, and 20 follow");
  refused(llm_c(20240520, 1, 10, tokens) + "x", "its header says 10 tokens, that is 20 bytes, and 21 follow");
  refused(llm_c(20240520, 1, 10, tokens).substr(0, 1000), "ends within its header: 1000 bytes of 1024");
  const std::vector<std::int32_t> wide_tokens(10, 3);
  refused(llm_c(20240801, 1, 10, wide_tokens),
          "has version 1 of llm.c's layout for tokens of 32 bits; only version 7 is read");
  refused(llm_c(20240801, 7, 10, tokens), "its header says 10 tokens, that is 40 bytes, and 20 follow");
  CHECK_THROWS_WITH_AS(token_shard("/nowhere/a.bin"), "/nowhere/a.bin: no such file", gradus::error);
  CHECK_THROWS_WITH_AS(token_shard(f.path), doctest::Contains("is a directory"), gradus::error);
}

TEST_CASE("a token outside a vocabulary is named with its place") {
  const folder f;
  gradus::token_shard_writer writer(f.path / "a.bin");
  writer.write(std::vector<std::uint16_t>{5, 99, 100, 7});
  writer.commit();
  const token_shard shard(f.path / "a.bin");
  CHECK_NOTHROW(shard.check_vocabulary(101));
  CHECK_THROWS_WITH_AS(shard.check_vocabulary(100),
                       ((f.path / "a.bin").string() + ": token 2 is 100, outside the vocabulary of 100").c_str(),
                       gradus::error);
}

TEST_CASE("a shard that is not committed leaves the old one") {
  const folder f;
  for (const bool commit : {true, false}) {
    gradus::token_shard_writer writer(f.path / "a.bin", shard_layout::llm_c);
    writer.write(std::vector<std::uint16_t>(commit ? 5 : 9, 1));
    if (commit) writer.commit();
  }
  CHECK(token_shard(f.path / "a.bin").tokens().size() == 5);
  CHECK_THROWS_AS(gradus::token_shard_writer("/nowhere/a.bin"), gradus::error);
}

TEST_CASE("bytes cut off or changed make an error or another shard, and nothing else") {
  const folder f;
  std::mt19937 random(gradus_test::fresh_seed());
  const std::array all{llm_c(20240520, 1, 10, std::vector<std::uint16_t>(10, 3)),
                       llm_c(20240801, 7, 10, std::vector<std::int32_t>(10, 3))};
  for (int round = 0; round < 400; ++round) {
    const std::string& whole = all[random() % 2];
    std::string bytes = whole.substr(0, round % 2 == 0 ? random() % (whole.size() + 1) : whole.size());
    if (!bytes.empty()) bytes[random() % std::min<std::size_t>(bytes.size(), 16)] = static_cast<char>(random());
    try {
      const token_shard shard(f.file(bytes));
      CHECK(shard.tokens().bytes().size() <= bytes.size());
    } catch (const gradus::error&) {}
  }
}
