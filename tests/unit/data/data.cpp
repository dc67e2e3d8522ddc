#include <doctest/doctest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <gradus/data/text.hpp>
#include <gradus/data/tokens.hpp>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "../../support/scratch_folder.hpp"

namespace {

namespace fs = std::filesystem;

using temporary_folder = gradus_test::scratch_folder;

std::vector<std::int32_t> counting(std::size_t n) {
  std::vector<std::int32_t> tokens(n);
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

}  // namespace

TEST_CASE("a text file is read byte for byte") {
  const temporary_folder folder;
  const std::string a = (folder.path / "a").string(), b = (folder.path / "b").string();
  std::ofstream(a, std::ios::binary) << std::string("x\0\r\n\xff", 5) << "end";
  std::ofstream(b) << "next";
  CHECK(gradus::read_text(a) == std::string("x\0\r\n\xff", 5) + "end");
  CHECK(gradus::read_texts(std::vector{a, b}) == std::string("x\0\r\n\xff", 5) + "end\nnext");
}

TEST_CASE("texts that end with a line end are joined as they are") {
  const temporary_folder folder;
  const std::string a = (folder.path / "a").string(), b = (folder.path / "b").string();
  std::ofstream(a, std::ios::binary) << "first\n";
  std::ofstream(b, std::ios::binary) << "second\n";
  CHECK(gradus::read_texts(std::vector{a, b}) == "first\nsecond\n");
}

TEST_CASE("a text file that cannot be used is refused in one line that names it") {
  const temporary_folder folder;
  const fs::path empty = folder.path / "empty";
  std::ofstream(empty).close();
  CHECK_THROWS_WITH_AS(gradus::read_text("/nowhere/book.txt"), "/nowhere/book.txt: no such file", gradus::error);
  CHECK_THROWS_WITH_AS(gradus::read_text(empty), (empty.string() + ": is empty").c_str(), gradus::error);
  CHECK_THROWS_WITH_AS(gradus::read_text(folder.path), doctest::Contains("is a directory"), gradus::error);
  if (geteuid() != 0) {  // root may read anything
    const fs::path locked = folder.path / "locked";
    std::ofstream(locked) << "secret";
    fs::permissions(locked, fs::perms::none);
    CHECK_THROWS_WITH_AS(gradus::read_text(locked), doctest::Contains("cannot be read: Permission denied"),
                         gradus::error);
  }
}

TEST_CASE("bytes are tokens and back") {
  const std::string text = "caf\xc3\xa9\n";
  const auto tokens = gradus::byte_tokenizer::encode(text);
  CHECK(tokens.size() == 6);
  CHECK(tokens[3] == 0xc3);
  CHECK(gradus::byte_tokenizer::decode(tokens) == text);
}

TEST_CASE("the last tenth of the tokens is for validation") {
  const auto tokens = counting(1000);
  const auto parts = gradus::split_tokens<std::int32_t>(tokens, 16);
  CHECK(parts.train.size() == 900);
  CHECK(parts.validation.size() == 100);
  CHECK(parts.validation.front() == 900);
}

TEST_CASE("a text too short for a window in both parts is refused") {
  const auto tokens = counting(1000);
  CHECK_THROWS_WITH_AS(gradus::split_tokens<std::int32_t>(tokens, 128),
                       "too short: 1000 tokens, and a context of 128 needs at least 1281", gradus::error);
  CHECK_THROWS_AS(gradus::split_tokens<std::int32_t>(counting(1280), 128), gradus::error);
  CHECK_NOTHROW(gradus::split_tokens<std::int32_t>(counting(1281), 128));
  CHECK_THROWS_WITH_AS(gradus::split_tokens<std::int32_t>(counting(515), 128, 0.75),
                       "too short: 515 tokens, and a context of 128 needs at least 516", gradus::error);
  CHECK_NOTHROW(gradus::split_tokens<std::int32_t>(counting(516), 128, 0.75));
  CHECK_THROWS_AS(gradus::split_tokens<std::int32_t>(std::span<const std::int32_t>(), 1), gradus::error);
}

TEST_CASE("random windows are a pure function of seed, step and part, and targets are one token on") {
  const auto tokens = counting(500);
  const auto draw = [&](std::uint64_t seed, std::uint32_t step, std::uint32_t part) {
    return gradus::random_windows<4, 8, std::int32_t>(tokens, seed, step, part);
  };
  const auto batch = draw(7, 3, 0);
  CHECK(draw(7, 3, 0).inputs == batch.inputs);
  CHECK(draw(8, 3, 0).inputs != batch.inputs);
  CHECK(draw(7, 4, 0).inputs != batch.inputs);
  CHECK(draw(7, 3, 1).inputs != batch.inputs);
  for (std::size_t row = 0; row < 4; ++row)
    for (std::size_t i = 0; i < 8; ++i) {
      CHECK(batch.inputs[row * 8 + i] == batch.inputs[row * 8] + static_cast<std::int32_t>(i));
      CHECK(batch.targets[row * 8 + i] == batch.inputs[row * 8 + i] + 1);
    }
}

TEST_CASE("two parts of one step are the rows of one batch twice the size") {
  const auto tokens = counting(500);
  const auto whole = gradus::random_windows<4, 8, std::int32_t>(tokens, 7, 3);
  auto halves = gradus::random_windows<2, 8, std::int32_t>(tokens, 7, 3, 0).inputs;
  const auto second = gradus::random_windows<2, 8, std::int32_t>(tokens, 7, 3, 1).inputs;
  halves.insert(halves.end(), second.begin(), second.end());
  CHECK(halves == whole.inputs);
}

TEST_CASE("random windows reach every place, and never past the end") {
  const auto tokens = counting(12);
  std::set<std::int32_t> starts;
  for (std::uint32_t step = 0; step < 100; ++step) {
    const auto batch = gradus::random_windows<2, 8, std::int32_t>(tokens, 1, step);
    starts.insert({batch.inputs[0], batch.inputs[8]});
  }
  CHECK(starts == std::set<std::int32_t>{0, 1, 2, 3});
  CHECK_THROWS_AS((gradus::random_windows<2, 8, std::int32_t>(counting(8), 1, 0)), gradus::error);
}

TEST_CASE("spread windows cover the text from its first token to its last") {
  const auto tokens = counting(100);
  const auto first = gradus::spread_windows<2, 8, std::int32_t>(tokens, 0, 3);
  const auto last = gradus::spread_windows<2, 8, std::int32_t>(tokens, 2, 3);
  CHECK(first.inputs.front() == 0);
  CHECK(last.targets.back() == 99);
}

TEST_CASE_TEMPLATE("windows hold tokens of one, two or four bytes", T, std::uint8_t, std::uint16_t, std::int32_t) {
  const std::vector<T> tokens{1, 2, 3, 4, 5};
  const auto batch = gradus::random_windows<1, 4, T>(std::span<const T>(tokens), 1, 0);
  CHECK(batch.inputs == std::vector<T>{1, 2, 3, 4});
  CHECK(batch.targets == std::vector<T>{2, 3, 4, 5});
}
