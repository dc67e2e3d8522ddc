// Each key of an encoder's config.json, absent, with the class's default, null and odd, as transformers takes it:
// tests/parity/make_family_fixtures.py recorded tests/data/families.json.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include <gradus/io/text_file.hpp>

#include "../support/scratch_folder.hpp"
#include "bert/families.hpp"

namespace gr = gradus;
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

// What was wrong; "" if nothing was.
std::string refusal_of(const auto& f) {
  try {
    f();
  } catch (const gr::error& e) { return e.what(); }
  return "";
}

json recorded_families() {
  const fs::path file = fs::path(GRADUS_TEST_DATA) / "families.json";
  return gr::parse_json(gr::read_text(file), file.string())["encoders"];
}

// The facts of ours that are not those of transformers' model, for a message.
std::string differences(const bert::description& of, const json& wanted) {
  const bert::config& sizes = of.sizes;
  const json found{{"layers", sizes.layers},
                   {"heads", sizes.heads},
                   {"width", sizes.width},
                   {"hidden", sizes.hidden},
                   {"vocabulary", sizes.vocabulary},
                   {"embedding", sizes.embedding > 0 ? sizes.embedding : sizes.width},
                   {"positions", sizes.positions},
                   {"segments", sizes.segments},
                   {"first_position", sizes.first_position},
                   {"epsilon", of.settings.epsilon},
                   {"activation", bert::activation_names[static_cast<std::size_t>(sizes.activation)]},
                   {"shared", {1, 1}},
                   {"causal", 0}};
  std::string all;
  for (const auto& [key, value] : wanted.items())
    if (found[key] != value) all += key + " is " + found[key].dump() + " where transformers has " + value.dump() + "; ";
  return all;
}

}  // namespace

TEST_CASE("the keys of each encoder's config.json and their defaults are those of transformers' class") {
  const json all = recorded_families();
  CHECK(all.size() == bert::families.size());
  for (std::size_t i = 0; i < bert::families.size(); ++i) {
    CAPTURE(bert::families[i].type);
    CHECK(bert::files_of(static_cast<bert::family>(i)).keys == all[bert::families[i].type]["defaults"]);
  }
}

TEST_CASE("each key of an encoder's config.json means what it means to transformers, or is refused by its name") {
  const gradus_test::scratch_folder place;
  fs::create_directories(place.path);
  const fs::path file = place.path / "config.json";
  std::set<std::string> refused;
  const json families = recorded_families();
  for (const auto& [family, all] : families.items()) {
    for (const json& one : all["cases"]) {
      json values = all["base"], wanted = all["facts"];
      values.update(one["set"]);
      for (const json& key : one["absent"]) values.erase(key.get<std::string>());
      CAPTURE(family);
      CAPTURE(one.dump());
      std::ofstream(file) << values;
      const std::string said = refusal_of([&] { bert::describe(place.path, true); });
      CAPTURE(said);
      CHECK((said.empty() || said.starts_with(file.string() + ": '")));
      if (one.contains("error")) continue;  // transformers runs no such model
      if (!said.empty()) {
        refused.insert(one["set"].dump());
        continue;
      }
      wanted.update(one["facts"]);
      const bert::description found = bert::describe(place.path, true);
      CHECK(differences(found, wanted) == "");
      std::ofstream(file) << bert::config_of(found.sizes, found.settings, 0.1, {}, "float32");
      CHECK(differences(bert::describe(place.path, true), wanted) == "");
    }
  }
  // What no model of this program computes; relative positions, of older versions, had tensors of their own.
  CHECK(refused == std::set<std::string>{R"({"activation":"mish"})", R"({"hidden_act":"mish"})",
                                         R"({"inner_group_num":2})", R"({"is_decoder":true})",
                                         R"({"num_hidden_groups":3})",
                                         R"({"position_embedding_type":"relative_key"})"});
}
