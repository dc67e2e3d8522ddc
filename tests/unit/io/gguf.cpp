#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <gradus/io/gguf.hpp>
#include <limits>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "../../support/message_of.hpp"
#include "../../support/scratch_folder.hpp"

namespace {

namespace fs = std::filesystem;
using gradus_test::message_of, gradus_test::scratch_folder;
using shape = std::vector<std::size_t>;

const fs::path recorded = fs::path(GRADUS_TEST_DATA) / "gguf" / "values.gguf";  // of the package gguf

std::string bytes_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}
template <class T>
std::string bytes(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(T)};
}
std::string text(const std::string& s) { return bytes<std::uint64_t>(s.size()) + s; }
std::string head(std::uint64_t tensors, std::uint64_t keys) {
  return "GGUF" + bytes<std::uint32_t>(3) + bytes(tensors) + bytes(keys);
}
std::string tensor(const std::string& name, const shape& innermost_first, std::uint32_t type, std::uint64_t offset) {
  std::string all = text(name) + bytes(static_cast<std::uint32_t>(innermost_first.size()));
  for (const std::uint64_t n : innermost_first) all += bytes(n);
  return all + bytes(type) + bytes(offset);
}
// What is said of a file of these bytes, behind its name; `cut` bytes of 0 follow them.
std::string refusal(std::string contents, std::size_t more = 0) {
  const scratch_folder folder;
  const fs::path path = folder.path / "x.gguf";
  std::ofstream(path, std::ios::binary) << contents << std::string(more, '\0');
  const std::string said = message_of([&] { gradus::gguf_file file(path); });
  return said.starts_with(path.string()) ? said.substr(path.string().size() + 2) : said;
}

}  // namespace

TEST_CASE("metadata of each type are what the package gguf wrote") {
  const gradus::gguf_file file(recorded);
  CHECK(file.value<std::string>("general.architecture") == "test");
  CHECK(file.value<std::uint8_t>("one.uint8") == 200);
  CHECK(file.value<std::int8_t>("one.int8") == -100);
  CHECK(file.value<std::uint16_t>("one.uint16") == 60000);
  CHECK(file.value<std::int16_t>("one.int16") == -30000);
  CHECK(file.value<std::uint32_t>("one.uint32") == 4000000000);
  CHECK(file.value<std::int32_t>("one.int32") == -2000000000);
  CHECK(file.value<float>("one.float32") == 0.5f);
  CHECK(file.value<bool>("one.bool"));
  CHECK(file.value<std::string>("one.string") == "größer");
  CHECK(file.value<std::uint64_t>("one.uint64") == std::uint64_t{1} << 63);
  CHECK(file.value<std::int64_t>("one.int64") == -(std::int64_t{1} << 62));
  CHECK(file.value<double>("one.float64") == 0.1);
  CHECK(file.number("one.int16") == -30000);
  CHECK(file.number("nowhere", 3) == 3);
  CHECK(file.value<std::string>("nowhere", "x") == "x");
  CHECK(file.list<std::int32_t>("list.int32") == std::vector<std::int32_t>{1, -2, 3});
  CHECK(file.list<float>("list.float32") == std::vector<float>{0.5f, -0.25f});
  CHECK(file.list<std::string>("list.string") == std::vector<std::string>{"a", "", "Ġb"});
  CHECK(file.list<bool>("list.bool") == std::vector<bool>{true, false});
  CHECK(message_of([&] { file.list<float>("list.int32"); }) ==
        recorded.string() + ": has a value of another type than is needed for 'list.int32'");
  CHECK(message_of([&] { file.number("nowhere"); }) == recorded.string() + ": has no key 'nowhere'");
  CHECK(message_of([&] { file.number("one.string"); }) ==
        recorded.string() + ": has a value of another type than is needed for 'one.string'");
}

TEST_CASE("tensors of each type have the values that the package gguf reads in them") {
  const gradus::gguf_file file(recorded);
  for (const char* type : {"F32", "F16", "BF16", "Q8_0", "Q4_K", "Q6_K"}) {
    CAPTURE(type);
    const std::string name = type;
    const shape rows = file.entry(name + ".weight").shape;
    CHECK(file.entry(name + ".weight").dtype == type);
    CHECK(file.read_as<float>(name + ".weight", rows) == file.read_as<float>(name + ".values", rows));
  }
  CHECK(file.read_as<double>("odd", shape{5}) == std::vector<double>{0, 1, 2, 3, 4});
  CHECK(file.read_as<float>("cube", shape{2, 3, 4})[23] == 23);
  CHECK(message_of([&] {
          file.read_as<float>("cube", shape{4, 3, 2});
        }) == recorded.string() + ": 'cube' has the shape [2, 3, 4] where [4, 3, 2] is needed");
  CHECK(message_of([&] { file.read_as<float>("x", shape{1}); }) == recorded.string() + ": has no tensor 'x'");
}

TEST_CASE("a written GGUF file has the bytes that the package gguf writes") {
  const gradus::gguf_file file(recorded);
  const scratch_folder folder;
  const fs::path path = folder.path / "copy.gguf";
  gradus::gguf_writer writer;
  for (const auto& [key, value] : file.metadata()) writer.set(key, value);
  for (const std::string type : {"F32", "F16", "BF16", "Q8_0"})
    writer.add(type + ".weight", type, {3, 64}, [&, type] {
      return file.read_as<float>(type + ".before", shape{3, 64});
    });
  writer.add("odd", "F32", {5}, [&] { return file.read_as<float>("odd", shape{5}); });
  writer.write(path);
  const gradus::gguf_file copy(path);
  CHECK(copy.metadata() == file.metadata());
  const std::string theirs = bytes_of(recorded), ours = bytes_of(path);
  for (const auto& item : copy.entries()) {
    CAPTURE(item.first);
    const gradus::gguf_entry &e = item.second, &of = file.entry(item.first);
    CHECK(e.begin % 32 == 0);
    CHECK(e.shape == of.shape);
    CHECK((ours.substr(e.begin, e.bytes) == theirs.substr(of.begin, of.bytes)));
  }
  CHECK(ours.size() % 32 == 0);
}

TEST_CASE("a writer refuses what the format does not have") {
  gradus::gguf_writer writer;
  const auto none = [] { return std::vector<float>{}; };
  writer.set("a", 1.0f);
  writer.add("x", "F32", {3}, none);
  CHECK(message_of([&] { writer.set("a", 2.0f); }) == "gguf: the key 'a' is taken");
  CHECK(message_of([&] { writer.add("x", "F32", {3}, none); }) == "gguf: 'x' is taken");
  CHECK(message_of([&] { writer.add("y", "Q4_K", {256}, none); }) ==
        "gguf: 'y' is to be written as Q4_K where F32, F16, BF16 or Q8_0 is needed");
  CHECK(message_of([&] {
          writer.add("y", "Q8_0", {32, 33}, none);
        }) == "gguf: 'y' has the shape [32, 33], and Q8_0 stores 32 values together");
  CHECK(message_of([&] {
          writer.add("y", "F32", {1, 1, 1, 1, 1}, none);
        }) == "gguf: 'y' has 5 dimensions; 4 are the most");
  CHECK(message_of([&] { writer.add(std::string(64, 'n'), "F32", {1}, none); }).ends_with("of more than 63 bytes"));
  const scratch_folder folder;
  CHECK(message_of([&] { writer.write(folder.path / "x.gguf"); }) == "gguf: 'x' has 0 values for the shape [3]");
  CHECK(fs::is_empty(folder.path));
}

TEST_CASE("a damaged GGUF file is refused in one line") {
  CHECK(refusal("") == "is not a GGUF file: it does not begin with \"GGUF\"");
  CHECK(refusal("GGML") == "is not a GGUF file: it does not begin with \"GGUF\"");
  CHECK(refusal("GGUF" + bytes<std::uint32_t>(1)) == "is a GGUF file of version 1; versions 2 and 3 are read");
  CHECK(refusal("GGUF" + bytes<std::uint32_t>(3)) == "ends within its head: the file was cut short");
  const std::uint64_t absurd = ~std::uint64_t{0};
  const std::string cut = "ends within its head: the file was cut short";
  CHECK(refusal(head(absurd, 0)) == cut);
  CHECK(refusal(head(0, absurd)) == cut);
  CHECK(refusal(head(0, 1) + bytes(absurd)) == cut);
  for (const std::uint32_t type : {0u, 6u, 7u, 8u, 10u})
    CHECK(refusal(head(0, 1) + text("k") + bytes<std::uint32_t>(9) + bytes(type) + bytes(absurd / 8), 50) == cut);
  CHECK(refusal(head(0, 1) + text("k") + bytes<std::uint32_t>(9) + bytes<std::uint32_t>(9), 50) ==
        "'k' is a list of lists, which are not read");
  CHECK(refusal(head(0, 1) + text("k") + bytes<std::uint32_t>(13), 50) == "'k' has a value of the unknown type 13");
  CHECK(refusal(head(0, 1) + text("a\nb\x1b") + bytes<std::uint32_t>(13), 50) ==
        R"('a\x0ab\x1b' has a value of the unknown type 13)");
  const std::string k = text("k") + bytes<std::uint32_t>(4) + bytes<std::uint32_t>(1);
  CHECK(refusal(head(0, 2) + k + k) == "the key 'k' occurs twice");
  CHECK(refusal(head(0, 1) + text("general.alignment") + bytes<std::uint32_t>(4) + bytes<std::uint32_t>(12)) ==
        "'general.alignment' is 12");
  CHECK(refusal(head(1, 0) + tensor("x", {256}, 77, 0), 1000) == "'x' is stored as the unknown type 77");
  CHECK(refusal(head(1, 0) + tensor("x", {31, 2}, 8, 0), 1000) ==
        "'x' has the shape [2, 31], and Q8_0 stores 32 values together");
  CHECK(refusal(head(1, 0) + tensor("x", {1, 1, 1, 1, 1}, 0, 0), 1000) == "'x' has 5 dimensions; 4 are the most");
  CHECK(refusal(head(1, 0) + tensor("x", {std::size_t{1} << 62, 4}, 0, 0), 1000) ==
        "'x' has the shape [4, 4611686018427387904], which is more than the file holds");
  CHECK(refusal(head(1, 0) + tensor("x", {8}, 0, 32), 1000) == "'x' begins at byte 32 where 0 is due");
  CHECK(refusal(head(2, 0) + tensor("x", {8}, 0, 0) + tensor("x", {8}, 0, 32), 1000) == "'x' occurs twice");
  CHECK(refusal(head(1, 0) + tensor("x", {8}, 0, 0), 31) == "ends within the tensor 'x': the file was cut short");
  const std::string whole = bytes_of(recorded);
  for (std::size_t size = 0; size + 96 < whole.size(); size += size < 1500 ? 1 : 500)
    CHECK(refusal(whole.substr(0, size)) != "nothing was thrown");
}

TEST_CASE("tensors of each type of the format may be in a GGUF file, and those that are not read are refused by name") {
  // Number, values and bytes of a block: GGML_QUANT_SIZES of the package gguf 0.19.
  constexpr std::size_t sizes[][3]{
      {2, 32, 18},    {3, 32, 20},    {6, 32, 22},    {7, 32, 24},   {9, 32, 40},   {10, 256, 84}, {11, 256, 110},
      {13, 256, 176}, {15, 256, 292}, {16, 256, 66},  {17, 256, 74}, {18, 256, 98}, {19, 256, 50}, {20, 32, 18},
      {21, 256, 110}, {22, 256, 82},  {23, 256, 136}, {24, 1, 1},    {25, 1, 2},    {26, 1, 4},    {27, 1, 8},
      {28, 1, 8},     {29, 256, 56},  {34, 256, 54},  {35, 256, 66}, {39, 32, 17},  {40, 64, 36},  {41, 128, 18}};
  for (const auto& [type, values, block] : sizes) {
    CAPTURE(type);
    const std::size_t count = 32 * values, place = 32 * block;  // whole blocks, and a multiple of 32 bytes
    const scratch_folder folder;
    const fs::path path = folder.path / "x.gguf";
    std::string contents =
        head(2, 0) + tensor("unread", {count}, static_cast<std::uint32_t>(type), 0) + tensor("wanted", {1}, 0, place);
    contents.resize((contents.size() + 31) / 32 * 32 + place);
    std::ofstream(path, std::ios::binary) << contents << bytes(0.5f);
    const gradus::gguf_file file(path);
    CHECK(file.read_as<float>("wanted", shape{1}) == std::vector{0.5f});
    CHECK(message_of([&] { file.read_as<float>("unread", shape{count}); }) ==
          path.string() + ": 'unread' is stored as " + file.entry("unread").dtype +
              "; F32, F16, BF16, Q8_0, Q4_K and Q6_K are read");
  }
}

TEST_CASE("a number that is not finite stays one in each type that is written, and what is too large is infinite") {
  constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const auto stored = [](const std::string& type, float x) {
    const scratch_folder folder;
    gradus::gguf_writer writer;
    writer.add("x", type, {1, 32}, [&] {
      std::vector<float> values(32, 1.0f);
      values[3] = x;
      return values;
    });
    writer.write(folder.path / "x.gguf");
    return gradus::gguf_file(folder.path / "x.gguf").read_as<float>("x", shape{1, 32});
  };
  for (const std::string type : {"F32", "F16", "BF16"}) {
    CAPTURE(type);
    CHECK(std::isnan(stored(type, nan)[3]));
    CHECK(stored(type, inf)[3] == inf);
    CHECK(stored(type, -inf)[3] == -inf);
    CHECK(stored(type, inf)[4] == 1);
  }
  CHECK(stored("F16", 1e5f)[3] == inf);
  CHECK(stored("BF16", std::numeric_limits<float>::max())[3] == inf);
  for (const float x : {nan, inf, -inf})  // a block of Q8_0 is NaN, as a block of quantized weights is
    for (const float y : stored("Q8_0", x)) CHECK(std::isnan(y));
  CHECK(stored("Q8_0", 8.4e6f)[3] == inf);  // the scale is more than an f16 holds
  gradus::gguf_writer writer;               // a scale below the smallest normal number
  writer.add("x", "Q8_0", {1, 32}, [] { return std::vector<float>(32, 0x1p-126f); });
  const scratch_folder folder;
  writer.write(folder.path / "x.gguf");
  CHECK(gradus::gguf_file(folder.path / "x.gguf").read_as<float>("x", shape{1, 32}) == std::vector<float>(32, 0.0f));
}

TEST_CASE("a whole number of the metadata is one below 2^32, whatever its type") {
  const scratch_folder folder;
  gradus::gguf_writer writer;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::pair<const char*, gradus::gguf_value> bad[]{
      {"nan", nan}, {"negative", std::int32_t{-1}}, {"half", 0.5}, {"huge", 1e300}, {"2^64 - 1", ~std::uint64_t{0}}};
  for (const auto& [key, value] : bad) writer.set(key, value);
  writer.set("three", 3.0f);
  writer.set("largest", ~std::uint32_t{0});
  writer.write(folder.path / "x.gguf");
  const gradus::gguf_file file(folder.path / "x.gguf");
  CHECK(file.count("three") == 3);
  CHECK(file.count("largest") == 4294967295);
  CHECK(file.count("absent", 5) == 5);
  for (const auto& item : bad) {
    CAPTURE(item.first);
    CHECK(message_of([&] { file.count(item.first); }).ends_with("' is not a whole number below 2^32"));
  }
}
