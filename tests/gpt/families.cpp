// The table of the Llama family in the guide: each family that is read stands in it and has recorded figures.
#include <doctest/doctest.h>

#include <filesystem>
#include <gradus/io/json.hpp>
#include <gradus/io/text_file.hpp>
#include <set>
#include <string>

#include "llama/config.hpp"

TEST_CASE("each family of the table in the guide has figures of transformers that tests compare") {
  std::set<std::string> recorded{"llama"};  // tests/parity/llama.cpp
  for (const auto& entry : std::filesystem::directory_iterator(GRADUS_TEST_DATA "/llama_family")) {
    const auto config = entry.path() / "config.json";
    recorded.insert(gradus::parse_json(gradus::read_text(config), config.string())["model_type"].get<std::string>());
  }
  const std::string page = gradus::read_text("docs/guide/choosing-a-model.md");
  const std::string table = page.substr(page.find("| `model_type` |"));
  for (const llama::family& family : llama::families) {
    INFO(family.name);
    CHECK(recorded.contains(family.name) == true);
    CHECK(table.find("`" + std::string(family.name) + "`") != std::string::npos);
  }
}
