#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <gradus/io/gguf.hpp>
#include <sstream>
#include <string>
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
  const std::string k = text("k") + bytes<std::uint32_t>(4) + bytes<std::uint32_t>(1);
  CHECK(refusal(head(0, 2) + k + k) == "the key 'k' occurs twice");
  CHECK(refusal(head(0, 1) + text("general.alignment") + bytes<std::uint32_t>(4) + bytes<std::uint32_t>(12)) ==
        "'general.alignment' is 12");
  CHECK(refusal(head(1, 0) + tensor("x", {256}, 13, 0), 1000) ==
        "'x' is stored as Q5_K; F32, F16, BF16, Q8_0, Q4_K and Q6_K are read");
  CHECK(refusal(head(1, 0) + tensor("x", {256}, 77, 0), 1000) ==
        "'x' is stored as the unknown type 77; F32, F16, BF16, Q8_0, Q4_K and Q6_K are read");
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
