#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <gradus/io/sharded_safetensors.hpp>
#include <span>
#include <string>
#include <vector>

#include "../../support/message_of.hpp"
#include "../../support/scratch_folder.hpp"

namespace {

namespace fs = std::filesystem;
using gradus_test::message_of, gradus_test::scratch_folder;

const std::vector<std::size_t> three{3};

void write(const fs::path& path, const std::vector<std::string>& names, float first) {
  const std::vector<float> values{first, first + 1, first + 2};
  gradus::safetensors_writer file;
  for (const std::string& name : names) file.add(name, three, std::span(values));
  file.write(path);
}
fs::path write_index(const fs::path& folder, const std::string& text) {
  const fs::path path = folder / "model.safetensors.index.json";
  std::ofstream(path) << text;
  return path;
}
std::string refusal(const fs::path& folder, const std::string& index) {
  const fs::path path = write_index(folder, index);
  const std::string text = message_of([&] { gradus::sharded_safetensors all(path); });
  return text.substr(std::min(text.size(), folder.string().size() + 1));
}

}  // namespace

TEST_CASE("an index leads to the tensors of several safetensors files") {
  const scratch_folder folder;
  write(folder.path / "model-00001-of-00002.safetensors", {"a", "b"}, 1);
  write(folder.path / "model-00002-of-00002.safetensors", {"c"}, 7);
  gradus::sharded_safetensors all(write_index(folder.path, R"({"metadata": {"total_size": 36}, "weight_map": {
      "a": "model-00001-of-00002.safetensors", "b": "model-00001-of-00002.safetensors",
      "c": "model-00002-of-00002.safetensors"}})"));
  CHECK(all.files().size() == 2);
  CHECK(all.has("a"));
  CHECK_FALSE(all.has("d"));
  CHECK(all.file_of("b").read<float>("b", three) == std::vector<float>{1, 2, 3});
  CHECK(all.file_of("c").read<float>("c", three) == std::vector<float>{7, 8, 9});
  CHECK(message_of([&] { all.file_of("d"); }) ==
        (folder.path / "model.safetensors.index.json").string() + ": has no tensor 'd'");
}

TEST_CASE("a single safetensors file needs no index") {
  const scratch_folder folder;
  write(folder.path / "model.safetensors", {"a"}, 1);
  gradus::sharded_safetensors all(folder.path / "model.safetensors");
  CHECK(all.file_of("a").read<float>("a", three) == std::vector<float>{1, 2, 3});
  CHECK(message_of([&] { all.file_of("d"); }) == (folder.path / "model.safetensors").string() + ": has no tensor 'd'");
}

TEST_CASE("an index that is not true of its files is refused") {
  const scratch_folder folder;
  write(folder.path / "one", {"a", "b"}, 1);
  write(folder.path / "two", {"a"}, 1);
  const std::string index = "model.safetensors.index.json: ";
  CHECK(refusal(folder.path, "[]") == index + "is not an index of safetensors files: it has no object 'weight_map'");
  CHECK(refusal(folder.path, R"({"weight_map": 1})") ==
        index + "is not an index of safetensors files: it has no object 'weight_map'");
  CHECK(refusal(folder.path, "{") == index + "is not JSON: it ends or has an error at byte 2");
  for (const std::string file : {R"("../one")", R"("")", R"("..")", R"("one\u0000x")", "1", "null"})
    CHECK(refusal(folder.path, R"({"weight_map": {"a": )" + file + "}}") ==
          index + "weight_map: 'a' must be in a file of the same folder, not in " + file);
  CHECK(refusal(folder.path, R"({"weight_map": {"a": "three"}})") == "three: no such file");
  CHECK(refusal(folder.path, R"({"weight_map": {"c": "one"}})") == "one: has no tensor 'c'");
  CHECK(refusal(folder.path, R"({"weight_map": {"a": "one"}})") ==
        "one: has a tensor 'b' that model.safetensors.index.json does not list");
  CHECK(refusal(folder.path, R"({"weight_map": {"a": "one", "b": "one", "c": "two"}})") == "two: has no tensor 'c'");
  write(folder.path / "two", {"a", "c"}, 1);
  CHECK(refusal(folder.path, R"({"weight_map": {"a": "one", "b": "one", "c": "two"}})") ==
        "two: has a tensor 'a' that model.safetensors.index.json does not list");
}
