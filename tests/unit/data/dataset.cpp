#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <gradus/data/batches.hpp>
#include <gradus/data/dataset.hpp>
#include <gradus/tokenizer/tokenizer_json.hpp>
#include <gradus/tokenizer/tokenizer_trainer.hpp>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "../../support/scratch_folder.hpp"
#include "../../support/system.hpp"

namespace {

namespace fs = std::filesystem;
using gradus::dataset;

struct data_folder : gradus_test::scratch_folder {
  std::string text(const char* name, const std::string& bytes) const {
    std::ofstream(path / name, std::ios::binary) << bytes;
    return (path / name).string();
  }
  template <class Token>
  std::string shard(const char* name, const std::vector<Token>& tokens,
                    gradus::shard_layout layout = gradus::shard_layout::nanogpt) const {
    fs::create_directories((path / name).parent_path());
    gradus::token_shard_writer out(path / name, layout);
    out.write(tokens);
    out.commit();
    return (path / name).string();
  }
};

std::string random_text(std::size_t bytes) {
  std::mt19937 random(gradus_test::fresh_seed());
  std::string text;
  while (text.size() < bytes) text += random() % 5 == 0 ? ' ' : static_cast<char>('a' + random() % 6);
  return text;
}
std::vector<int> values(const gradus::token_sequence& s) {
  std::vector<std::byte> buffer;
  return s.read(buffer).visit([](auto tokens) { return std::vector<int>(tokens.begin(), tokens.end()); });
}
std::vector<int> values(const std::string& text) { return {text.begin(), text.end()}; }

}  // namespace

TEST_CASE("a single text is its bytes, the end of it for validation") {
  const data_folder f;
  const std::string text = random_text(1000);
  const dataset data({.data = {f.text("a.txt", text)}}, 16);
  REQUIRE(data.train().size() == 1);
  REQUIRE(data.validation().size() == 1);
  CHECK(values(data.train()[0]) == values(text.substr(0, 900)));
  CHECK(values(data.validation()[0]) == values(text.substr(900)));
  CHECK(data.bytes());
  CHECK(data.tokenizer() == nullptr);
  CHECK(data.vocabulary() == 256);
  CHECK(data.tokens() == 1000);
  CHECK_THROWS_WITH_AS(data.train()[0].bytes(), doctest::Contains("the tokens are in a file"), gradus::error);
  const dataset half({.data = {(f.path / "a.txt").string()}, .validation_share = 0.5}, 16);
  CHECK(half.train()[0].size() == 500);
}

TEST_CASE("several texts are joined behind line ends, and validation may have texts of its own") {
  const data_folder f;
  const dataset data({.data = {f.text("a", "short"), f.text("b", "ends\n"), f.text("c", random_text(50))},
                      .validation_data = {f.text("d", random_text(40))}},
                     16);
  CHECK(data.train()[0].size() == 6 + 5 + 50);
  CHECK(values(data.train()[0].part(0, 12)) ==
        values("short\nends\n" + std::string(1, static_cast<char>(values(data.train()[0])[11]))));
  CHECK(data.train()[0].name() == (f.path / "a").string() + " and the others");
  CHECK(data.validation()[0].size() == 40);
}

TEST_CASE("a tokenizer encodes the texts, with its separator between them") {
  const data_folder f;
  const std::string a = random_text(3000), b = random_text(500);
  const auto tokenizer = gradus::train_tokenizer(a, {.vocabulary = 300});
  const std::string json = (f.path / "tokenizer.json").string();
  gradus::write_tokenizer_json(json, tokenizer);
  const dataset data({.data = {f.text("a", a), f.text("b", b)}, .validation_data = {f.text("c", b)}, .tokenizer = json},
                     16);
  auto expected = tokenizer.encode(a);
  expected.push_back(*tokenizer.id_of("<|endoftext|>"));
  for (const auto t : tokenizer.encode(b)) expected.push_back(t);
  CHECK(values(data.train()[0]) == std::vector<int>(expected.begin(), expected.end()));
  CHECK_FALSE(data.bytes());
  REQUIRE(data.tokenizer() != nullptr);
  CHECK(data.vocabulary() == tokenizer.vocabulary());
  CHECK(tokenizer.decode(std::vector<std::int32_t>(expected.end() - 3, expected.end())) ==
        data.tokenizer()->decode(std::vector<std::int32_t>(expected.end() - 3, expected.end())));
}

TEST_CASE("each text begins with the tokenizer's token for that") {
  const data_folder f;
  const std::string a = random_text(300), b = random_text(300), json = GRADUS_TEST_DATA "/tokenizer/llama3.json";
  const auto tokenizer = gradus::read_tokenizer_json(json);
  const dataset data({.data = {f.text("a", a), f.text("b", b)}, .validation_data = {f.text("c", b)}, .tokenizer = json},
                     16);
  std::vector<int> expected{*tokenizer.begin_token()};
  for (const auto t : tokenizer.encode(a)) expected.push_back(t);
  for (const auto t : {*tokenizer.end_token(), *tokenizer.begin_token()}) expected.push_back(t);
  for (const auto t : tokenizer.encode(b)) expected.push_back(t);
  CHECK(values(data.train()[0]) == expected);
}

TEST_CASE("a folder of shards: those with val in their names are for validation") {
  const data_folder f;
  const std::vector<std::uint16_t> tokens(40, 7), others(30, 9), judged(20, 5);
  f.shard("s/x_train_000001.bin", others);
  f.shard("s/x_train_000000.bin", tokens);
  f.shard("s/x_val_000000.bin", judged);
  const std::string folder = (f.path / "s").string();
  {
    const dataset data({.data = {folder}}, 16);
    REQUIRE(data.train().size() == 2);
    CHECK(values(data.train()[0]) == std::vector<int>(40, 7));
    CHECK(values(data.train()[1]) == std::vector<int>(30, 9));
    CHECK(values(data.validation()[0]) == std::vector<int>(20, 5));
    CHECK(data.vocabulary() == 0);
    CHECK_FALSE(data.bytes());
  }
  // A share where none is for validation; and the tokenizer beside them.
  const auto tokenizer = gradus::train_tokenizer(random_text(500), {.vocabulary = 270});
  gradus::write_tokenizer_json(f.path / "s" / "tokenizer.json", tokenizer);
  fs::remove(f.path / "s" / "x_val_000000.bin");
  const dataset cut({.data = {folder}, .validation_share = 0.3}, 16);
  CHECK(cut.train().size() == 1);
  CHECK(cut.validation()[0].size() == 21);
  CHECK(cut.vocabulary() == tokenizer.vocabulary());
  // Shards that are named, whatever they are called.
  const dataset named(
      {.data = {f.shard("a.bin", tokens), f.shard("val.bin", others)}, .validation_data = {f.shard("b.bin", judged)}},
      16);
  CHECK(named.train().size() == 2);
  CHECK(named.tokens() == 90);
  // What is left over at the end of a folder's shards may be too short; a shard that is named may not.
  const std::string rest = f.shard("s/x_train_000002.bin", std::vector<std::uint16_t>(16, 3));
  f.shard("s/x_val_000000.bin", judged);
  CHECK(dataset({.data = {folder}}, 16).train().size() == 2);
  CHECK_THROWS_WITH_AS(dataset({.data = {folder}}, 40), doctest::Contains("too short"), gradus::error);
  CHECK_THROWS_WITH_AS(dataset({.data = {rest}, .validation_data = {rest}}, 16), doctest::Contains("too short"),
                       gradus::error);
}

TEST_CASE("a text or a shard that changes while it is in use is an error, and never other tokens") {
  const data_folder f;
  const std::string text = random_text(3000);
  const std::string path = f.text("t", text), shard = f.shard("a.bin", std::vector<std::uint16_t>(3000, 7));
  const auto is_noticed = [&](const std::string& which, const auto& change) {
    const dataset data({.data = {which}}, 16);
    const gradus::token_windows<std::uint16_t, 16> train(data.train());
    const auto before = train.random_batch<4>(1, 0);
    CHECK(train.random_batch<4>(1, 0).inputs == before.inputs);
    change();
    CHECK_THROWS_WITH_AS(train.random_batch<4>(1, 0),
                         (which + ": has changed since it was opened; it must not change "
                                  "while it is in use")
                             .c_str(),
                         gradus::error);
    CHECK_THROWS_AS(data.fingerprint(), gradus::error);
  };
  const auto later = [&](const std::string& which) {  // clocks of file systems are coarse
    fs::last_write_time(which, fs::last_write_time(which) + std::chrono::seconds(2));
  };
  is_noticed(path, [&] { f.text("t", ""); });  // as an editor or cp begins
  is_noticed(f.text("t", text), [&] { f.text("t", "few"); });
  is_noticed(f.text("t", text), [&] { f.text("t", text + "more"); });
  is_noticed(f.text("t", text), [&] { f.text("t", random_text(3000)), later(path); });  // of the same size
  is_noticed(shard, [&] { fs::resize_file(shard, 2000); });
}

TEST_CASE("a text whose name another file takes is read on as it was" * doctest::skip(gradus_test::on_windows)) {
  const data_folder f;
  const std::string text = random_text(3000), path = f.text("t", text);
  const dataset data({.data = {path}}, 16);
  CHECK(data.replaced_files().empty());
  f.text("new", random_text(2000));
  fs::rename(f.path / "new", path);
  CHECK(values(data.train()[0]) == values(text.substr(0, 2700)));
  CHECK(data.replaced_files() == path);
  fs::remove(path);
  CHECK(values(data.train()[0]) == values(text.substr(0, 2700)));
  CHECK(data.replaced_files() == path);
}

TEST_CASE("a text in memory that is rewritten, replaced or removed is told of") {
  const data_folder f;
  const std::string a = random_text(3000), path = f.text("a", a), other = f.text("b", random_text(500));
  const std::string json = (f.path / "tokenizer.json").string();
  gradus::write_tokenizer_json(json, gradus::train_tokenizer(a, {.vocabulary = 300}));
  for (const std::string& tokenizer : {std::string(), json}) {
    f.text("a", a);
    const dataset data({.data = {path, other}, .tokenizer = tokenizer}, 16);
    const auto before = values(data.train()[0]);
    CHECK(data.replaced_files().empty());
    f.text("a", "rewritten");
    CHECK(data.replaced_files() == path);
    fs::remove(path);
    CHECK(data.replaced_files() == path);
    CHECK(values(data.train()[0]) == before);
  }
}

TEST_CASE("a shard of 32-bit tokens is one like others") {
  const data_folder f;
  std::vector<std::int32_t> tokens(40);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>(100'000 + i);
  const dataset data({.data = {f.shard("a.bin", tokens, gradus::shard_layout::llm_c_32)},
                      .validation_data = {f.shard("b.bin", std::vector<std::uint16_t>(20, 5))}},
                     16);
  CHECK(values(data.train()[0]) == tokens);
  CHECK(data.tokens() == 60);
  CHECK_NOTHROW(data.check_tokens(100'040));
  CHECK_THROWS_WITH_AS(data.check_tokens(100'039), doctest::Contains("token 39 is 100039, outside the vocabulary"),
                       gradus::error);
  const auto batch = gradus::token_windows<std::int32_t, 16>(data.train(), 100'040).random_batch<4>(1, 0);
  CHECK(batch.targets[0] == batch.inputs[0] + 1);
}

TEST_CASE("all tokens of shards are held against a vocabulary before training begins") {
  const data_folder f;
  std::vector<std::uint16_t> tokens(600000, 7);
  tokens[555555] = 300;
  const std::string path = f.shard("a.bin", tokens);
  const dataset data({.data = {path}}, 16);
  CHECK_NOTHROW(data.check_tokens(301));
  CHECK_THROWS_WITH_AS(data.check_tokens(300), (path + ": token 555555 is 300, outside the vocabulary of 300").c_str(),
                       gradus::error);
  CHECK_NOTHROW(dataset({.data = {f.text("t", random_text(1000))}}, 16).check_tokens(256));
}

TEST_CASE("the fingerprint tells data apart") {
  const data_folder f;
  std::string text = random_text(1000);
  const auto of = [&](const std::string& bytes) { return dataset({.data = {f.text("t", bytes)}}, 16).fingerprint(); };
  const auto before = of(text);
  CHECK(of(text) == before);
  text[500] ^= 1;
  CHECK(of(text) != before);
}

// A checkpoint holds it: what it is of must stay the same bytes.
TEST_CASE("the fingerprint of a long sequence is of 1024 pieces of its bytes, wherever tokens begin") {
  const data_folder f;
  constexpr std::size_t piece = 65536;
  std::vector<std::uint16_t> tokens((std::size_t{1} << 25) + 512);
  std::uint32_t state = 1;
  for (auto& t : tokens) t = static_cast<std::uint16_t>((state = state * 1664525u + 1013904223u) >> 16);
  const std::vector<std::uint16_t> judged(40, 7);
  std::uint64_t hash = 14695981039346656037u;
  const auto add = [&](std::span<const std::byte> bytes) {
    for (const std::byte b : bytes) hash = (hash ^ static_cast<std::uint64_t>(b)) * 1099511628211u;
  };
  const auto bytes = std::as_bytes(std::span(tokens));
  const std::size_t apart = (bytes.size() - piece) / 1023;
  REQUIRE(apart % 2 == 1);
  for (std::size_t p = 0; p < 1024; ++p) add(bytes.subspan(apart * p, piece));
  add(std::as_bytes(std::span(judged)));
  CHECK(
      dataset({.data = {f.shard("a.bin", tokens)}, .validation_data = {f.shard("b.bin", judged)}}, 16).fingerprint() ==
      hash);
}

TEST_CASE("data that cannot be used are refused in a line that names them") {
  const data_folder f;
  const std::string text = f.text("text", random_text(100)), empty = f.text("empty", "");
  const std::string shard = f.shard("a.bin", std::vector<std::uint16_t>(40, 1));
  const auto refused = [&](gradus::dataset_files files, const std::string& with) {
    CHECK_THROWS_WITH_AS(dataset(files, 16), doctest::Contains(with.c_str()), gradus::error);
  };
  refused({}, "no file is given");
  refused({.data = {"/nowhere/book.txt"}}, "/nowhere/book.txt: no such file");
  refused({.data = {empty}}, empty + ": is empty");
  refused({.data = {text, shard}}, "and the others: name texts or shards (*.bin), not both");
  refused({.data = {text}, .validation_data = {shard}},
          "a.bin: name texts or shards (*.bin) for training and for validation, not both");
  refused({.data = {shard}, .validation_data = {text}},
          "text: name texts or shards (*.bin) for training and for validation, not both");
  refused({.data = {f.path.string(), text}}, "a folder of shards; name it alone");
  refused({.data = {text, f.path.string()}}, "is a directory");
  fs::create_directories(f.path / "none");
  refused({.data = {(f.path / "none").string()}}, "has no shards to train on");
  refused({.data = {text}, .validation_data = {f.text("few", "few words")}},
          "few: too short: 9 tokens; a context of 16 needs at least 17");
  refused({.data = {text}, .validation_data = {f.text("nearly", "sixteen letters.")}},
          "nearly: too short: 16 tokens; a context of 16 needs at least 17");
  refused({.data = {f.text("t", "too short")}}, "t: too short: 9 tokens");
  refused({.data = {text}, .tokenizer = text}, "text");
  refused({.data = {text}, .validation_share = 1}, "must be between 0 and 1");
}
