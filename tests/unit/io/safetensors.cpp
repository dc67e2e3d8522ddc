#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <gradus/io/atomic_file.hpp>
#include <gradus/io/safetensors.hpp>
#include <limits>
#include <string>
#include <vector>

#include "../../support/scratch_folder.hpp"
#include "../../support/seed.hpp"
#include "../../support/system.hpp"

namespace {

namespace fs = std::filesystem;

using gradus_test::scratch_folder;

std::string bytes_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A file with this header, and `data_bytes` zero bytes after it.
fs::path make_file(const fs::path& folder, const std::string& header, std::size_t data_bytes) {
  const fs::path path = folder / "made.safetensors";
  std::ofstream out(path, std::ios::binary);
  for (int i = 0; i < 8; ++i) out.put(static_cast<char>((header.size() >> (8 * i)) & 255u));
  out << header << std::string(data_bytes, '\0');
  return path;
}

std::string complaint(const fs::path& path) {
  try {
    const gradus::safetensors_file file(path);
  } catch (const gradus::error& e) { return e.what(); }
  return "";
}

bool complains(const std::string& text, std::string_view about) {
  CAPTURE(text);
  CHECK(text.find('\n') == std::string::npos);
  return text.find(about) != std::string::npos;
}

}  // namespace

TEST_CASE("what is written to a safetensors file is read back") {
  const scratch_folder folder;
  const std::vector<float> weights{1, 2, 3, 4, 5, -6.5f};
  const std::vector<std::int64_t> ids{-1, 1LL << 40};
  const std::vector<gradus::bf16> half{gradus::bf16(1.5f)};
  const std::vector<std::size_t> two_by_three{2, 3}, pair{2}, scalar{};
  gradus::safetensors_writer writer;
  writer.set_metadata("width", "3");
  writer.add("weights", two_by_three, std::span(weights));
  writer.add("ids", pair, std::span(ids));
  writer.add("half", scalar, std::span(half));
  writer.write(folder.path / "a.safetensors");

  gradus::safetensors_file file(folder.path / "a.safetensors");
  CHECK(file.metadata().at("width") == "3");
  CHECK(file.entries().size() == 3);
  CHECK(file.read<float>("weights", two_by_three) == weights);
  CHECK(file.read<std::int64_t>("ids", pair) == ids);
  CHECK(file.entry("half").dtype == "BF16");
  CHECK(static_cast<float>(file.read<gradus::bf16>("half").at(0)) == 1.5f);
  CHECK_FALSE(fs::exists(folder.path / "a.safetensors.tmp"));

  SUBCASE("the header is padded to a multiple of 8") {
    CHECK((fs::file_size(folder.path / "a.safetensors") - 24 - 16 - 2) % 8 == 0);
  }
  SUBCASE("another shape, dtype or name is refused") {
    CHECK_THROWS_WITH_AS(file.read<float>("weights", pair),
                         doctest::Contains("'weights' has the shape [2, 3] where [2] is needed"), gradus::error);
    CHECK_THROWS_WITH_AS(file.read<double>("weights"), doctest::Contains("stored as F32 where F64 is needed"),
                         gradus::error);
    CHECK_THROWS_WITH_AS(file.entry("bias"), doctest::Contains("has no tensor 'bias'"), gradus::error);
  }
}

TEST_CASE("values stored in one floating-point type are read as another, rounded to nearest") {
  using gradus::bf16, gradus::f16;
  const scratch_folder folder;
  const std::vector<double> doubles{1.0000001, -2, 1e300};
  const std::vector<float> floats{1.00390625f, -3.5f, 70000.0f};
  const std::vector<bf16> bf16s{bf16(1.5f)};
  const std::vector<f16> f16s{f16(-0.25f)};
  const std::vector<std::int32_t> ids{7};
  const std::vector<std::size_t> three{3}, one{1};
  gradus::safetensors_writer writer;
  writer.add("doubles", three, std::span(doubles));
  writer.add("floats", three, std::span(floats));
  writer.add("bf16s", one, std::span(bf16s));
  writer.add("f16s", one, std::span(f16s));
  writer.add("ids", one, std::span(ids));
  writer.write(folder.path / "mixed.safetensors");
  gradus::safetensors_file file(folder.path / "mixed.safetensors");
  CHECK(file.read_as<float>("doubles", three) ==
        std::vector<float>{1.00000012f, -2, std::numeric_limits<float>::infinity()});
  CHECK(file.read_as<double>("floats", three) == std::vector<double>{1.00390625, -3.5, 70000});
  CHECK(file.read_as<float>("floats", three) == floats);
  const auto low = file.read_as<bf16>("floats", three);
  CHECK(static_cast<float>(low[0]) == 1.0f);  // a tie, to even
  CHECK(static_cast<float>(low[1]) == -3.5f);
  CHECK(std::isinf(static_cast<float>(file.read_as<f16>("floats", three)[2])));
  CHECK(file.read_as<float>("bf16s", one) == std::vector<float>{1.5f});
  CHECK(file.read_as<double>("f16s", one) == std::vector<double>{-0.25});
  CHECK_THROWS_WITH_AS(
      file.read_as<float>("ids", one),
      doctest::Contains("'ids' is stored as I32, which is not a floating-point type to convert to F32"), gradus::error);
  CHECK_THROWS_WITH_AS(file.read_as<float>("floats", one), doctest::Contains("has the shape [3] where [1] is needed"),
                       gradus::error);
  CHECK_THROWS_WITH_AS(file.read_as<double>("floats", one), doctest::Contains("has the shape [3] where [1] is needed"),
                       gradus::error);
}

TEST_CASE("a checksum finds every bit that flips, wherever it is") {
  const scratch_folder folder;
  const fs::path path = folder.path / "a.safetensors";
  std::vector<float> values(300000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const std::vector<std::size_t> shape{values.size()};
  gradus::safetensors_writer writer;
  writer.set_metadata("step", "7");
  writer.add("crc32c", shape, std::span(values));  // a name that is the key's
  writer.add_checksum();
  writer.write(path);
  const auto check = [&] { gradus::safetensors_file(path).check_checksum(); };
  CHECK_NOTHROW(check());
  CHECK(gradus::safetensors_file(path).read<float>("crc32c") == values);

  const std::string whole = bytes_of(path);
  const auto write = [&](const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; };
  for (const std::size_t at : {whole.find("\"step\":\"7") + 8, whole.size() - 1, whole.size() - 4 * values.size(),
                               whole.size() - 1 - gradus_test::fresh_seed() % (4 * values.size())}) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    write(damaged);
    CAPTURE(at);
    CHECK_THROWS_WITH_AS(check(), doctest::Contains("a.safetensors: is damaged: its checksum is "), gradus::error);
  }
  // One that is spoilt itself says so, too.
  std::string damaged = whole;
  const std::size_t digits = whole.find("\"crc32c\":\"") + 10;
  damaged[digits] = damaged[digits] == '0' ? '1' : '0';
  write(damaged);
  CHECK_THROWS_AS(check(), gradus::error);
  // Who changes a file takes the checksum away; then nothing is held against it.
  damaged = whole;
  damaged.replace(damaged.find("\"crc32c\":\""), 8, "\"edited\"");
  write(damaged);
  CHECK_NOTHROW(check());
}

TEST_CASE("names with quotes, and many of them, are written and read back") {
  const scratch_folder folder;
  const float one = 1;
  const std::vector<std::size_t> scalar{};
  gradus::safetensors_writer writer;
  writer.add("a \"b\" \\ \n", scalar, std::span(&one, 1));
  for (int i = 0; i < 3000; ++i) writer.add("w" + std::to_string(i), scalar, std::span(&one, 1));
  writer.write(folder.path / "many.safetensors");
  const gradus::safetensors_file file(folder.path / "many.safetensors");
  CHECK(file.entries().size() == 3001);
  CHECK(file.has("a \"b\" \\ \n"));
}

TEST_CASE("a safetensors file without tensors is sixteen bytes") {
  const scratch_folder folder;
  gradus::safetensors_writer().write(folder.path / "e.safetensors");
  CHECK(bytes_of(folder.path / "e.safetensors") == std::string("\x08\0\0\0\0\0\0\0{}      ", 16));
  CHECK(gradus::safetensors_file(folder.path / "e.safetensors").entries().empty());
}

TEST_CASE("the writer refuses a name twice and values that do not fit the shape") {
  const std::vector<float> two{1, 2};
  const std::vector<std::size_t> pair{2}, three{3};
  gradus::safetensors_writer writer;
  writer.add("a", pair, std::span(two));
  CHECK_THROWS_AS(writer.add("a", pair, std::span(two)), gradus::error);
  CHECK_THROWS_AS(writer.add("b", three, std::span(two)), gradus::error);
  CHECK_THROWS_AS(writer.add("__metadata__", pair, std::span(two)), gradus::error);
}

TEST_CASE("a malformed safetensors file is refused in one line that says why") {
  const scratch_folder folder;
  const auto problem = [&](const std::string& header, std::size_t data) {
    return complaint(make_file(folder.path, header, data));
  };
  const std::string a4 = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";

  CHECK(problem(a4 + "}", 4) == "");
  CHECK(complains(complaint(folder.path / "none"), "no such file"));
  CHECK(complains(complaint(folder.path), "is a directory"));
  {
    const fs::path path = folder.path / "short";
    std::ofstream(path) << "abc";
    CHECK(complains(complaint(path), "too short"));
    std::ofstream(path) << std::string("\x20\0\0\0\0\0\0\0{}", 10);
    CHECK(complains(complaint(path), "ends within its header"));
    std::ofstream(path) << std::string(8, '\x7f') << "{}";
    CHECK(complains(complaint(path), "more than 10 MB"));
  }
  CHECK(complains(problem("", 0), "not a JSON object"));
  CHECK(complains(problem("[]", 0), "not a JSON object"));
  CHECK(complains(problem(" {}", 0), "not a JSON object"));
  CHECK(complains(problem(a4, 4), "not a JSON object"));
  CHECK(complains(problem(a4 + "}", 3), "describes 4"));
  CHECK(complains(problem(a4 + "}", 5), "describes 4"));
  CHECK(complains(problem(a4 + R"(,"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4), "'a' occurs twice"));
  CHECK(complains(problem(R"({"__metadata__":{"k":"1","k":"2"}})", 0), "'k' occurs twice"));
  CHECK(complains(problem(a4 + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4), "where 4 is due"));
  CHECK(complains(problem(a4 + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})", 12), "where 4 is due"));
  CHECK(complains(problem(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4), "need 8"));
  CHECK(complains(problem(R"({"a":{"dtype":"F31","shape":[1],"data_offsets":[0,4]}})", 4), "unknown dtype 'F31'"));
  CHECK(complains(problem(R"({"a\nb":{"dtype":"F31","shape":[1],"data_offsets":[0,4]}})", 4), R"('a\x0ab' has the)"));
  CHECK(complains(problem(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4), "whole numbers"));
  CHECK(complains(problem(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0),
                  "cannot exist"));
  CHECK(complains(problem(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4), "a begin and an end"));
  CHECK(complains(problem(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4), "a begin and an end"));
  CHECK(complains(problem(R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4), "no list 'shape'"));
  CHECK(complains(problem(R"({"a":{"shape":[1],"data_offsets":[0,4]}})", 4), "no 'dtype'"));
  CHECK(complains(problem(R"({"a":7})", 0), "not a JSON object"));
  CHECK(complains(problem(R"({"__metadata__":{"k":1}})", 0), "'k' is not a string"));
}

TEST_CASE(
    "tensors of each type of the format may be in a safetensors file, and those that are not read are refused by "
    "name") {
  // Values and bytes, as safetensors 0.8 of Python accepts them.
  struct sized {
    const char* dtype;
    std::size_t values, bytes;
  };
  const scratch_folder folder;
  const auto with = [&](const sized& of) {
    const std::string end = std::to_string(of.bytes), next = std::to_string(of.bytes + 4);
    return make_file(folder.path,
                     std::string(R"({"unread":{"dtype":")") + of.dtype + R"(","shape":[)" + std::to_string(of.values) +
                         R"(],"data_offsets":[0,)" + end +
                         R"(]},"wanted":{"dtype":"F32","shape":[1],"data_offsets":[)" + end + "," + next + "]}}",
                     of.bytes + 4);
  };
  const std::vector<std::size_t> one{1};
  for (const sized& of : {sized{"F4", 4, 2},
                          {"F6_E2M3", 4, 3},
                          {"F6_E3M2", 8, 6},
                          {"F8_E4M3", 3, 3},
                          {"F8_E5M2", 3, 3},
                          {"F8_E8M0", 3, 3},
                          {"F8_E4M3FNUZ", 3, 3},
                          {"F8_E5M2FNUZ", 3, 3},
                          {"C64", 2, 16}}) {
    CAPTURE(of.dtype);
    const std::vector<std::size_t> shape{of.values};
    gradus::safetensors_file file(with(of));
    CHECK(file.read_as<float>("wanted", one) == std::vector<float>{0});
    std::string said;
    try {
      file.read_as<float>("unread", shape);
    } catch (const gradus::error& e) { said = e.what(); }
    CHECK(complains(said, std::string("'unread' is stored as ") + of.dtype));
    CHECK(complains(complaint(with({of.dtype, of.values, of.bytes + 1})), "its shape and dtype need"));
  }
  CHECK(complains(complaint(with({"F4", 3, 2})), "'unread' has the dtype F4, and its values do not fill whole bytes"));
  CHECK(complains(complaint(with({"F6_E2M3", 2, 2})), "do not fill whole bytes"));
}

TEST_CASE("an atomic file that is not committed leaves the old one as it was") {
  const scratch_folder folder;
  const fs::path path = folder.path / "f";
  gradus::write_file_atomically(path, "old");
  {
    gradus::atomic_file file(path);
    file.write("new");
  }
  CHECK(bytes_of(path) == "old");
  CHECK(std::distance(fs::directory_iterator(folder.path), {}) == 1);
  gradus::write_file_atomically(path, "new");
  CHECK(bytes_of(path) == "new");
  CHECK_THROWS_WITH_AS(gradus::write_file_atomically(folder.path / "no" / "f", "x"), doctest::Contains("No such file"),
                       gradus::error);
}

TEST_CASE("an atomic file that cannot be opened leaves what is in its way") {
  const scratch_folder folder;
  fs::create_directory(folder.path / "f.tmp");
  CHECK_THROWS_AS(gradus::write_file_atomically(folder.path / "f", "x"), gradus::error);
  CHECK(fs::is_directory(folder.path / "f.tmp"));
}

TEST_CASE("an atomic file follows no symbolic link" * doctest::skip(gradus_test::on_windows)) {
  const scratch_folder folder;
  const fs::path victim = folder.path / "victim", file = folder.path / "f", temporary = folder.path / "f.tmp";
  gradus::write_file_atomically(victim, "mine");
  fs::create_symlink(victim, temporary);
  CHECK_THROWS_WITH_AS(gradus::write_file_atomically(file, "x"), doctest::Contains("f.tmp is a symbolic link"),
                       gradus::error);
  CHECK(bytes_of(victim) == "mine");
  CHECK(fs::is_symlink(temporary));
  // A result that is a link is replaced, not followed.
  fs::remove(temporary);
  fs::create_symlink(victim, file);
  gradus::write_file_atomically(file, "new");
  CHECK(bytes_of(victim) == "mine");
  CHECK_FALSE(fs::is_symlink(file));
}

TEST_CASE("an atomic file replaces what a killed process left, and nothing that is being written") {
  const scratch_folder folder;
  const fs::path file = folder.path / "f", temporary = folder.path / "f.tmp";
  std::ofstream(temporary) << "half of a fi";
  gradus::write_file_atomically(file, "whole");
  CHECK(bytes_of(file) == "whole");
  CHECK_FALSE(fs::exists(temporary));
  {
    gradus::atomic_file first(file);
    CHECK_THROWS_WITH_AS(gradus::atomic_file{file}, doctest::Contains("is being written by another process"),
                         gradus::error);
    first.write("first");
    first.commit();
  }
  CHECK(bytes_of(file) == "first");
}
