#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <gradus/io/config_file.hpp>
#include <string>

#include "../../support/message_of.hpp"
#include "../../support/scratch_folder.hpp"

namespace gr = gradus;
using gradus_test::message_of;

TEST_CASE("a configuration is read back as it was written") {
  const gradus_test::scratch_folder folder;
  const auto path = folder.path / "config";
  const gr::config_entries entries{{"steps", "100"},     {"data", "/a b/c=d.txt"}, {"data", "second"}, {"empty", ""},
                                   {"blanks", " two  "}, {"quoted", "\"it\""},     {"#", "no comment"}};
  std::ofstream(path) << "# a comment\n\n" << gr::config_text({entries.begin(), entries.end() - 1});
  const gr::config_entries read = gr::read_config(path);
  CHECK(read == gr::config_entries(entries.begin(), entries.end() - 1));
  CHECK(gr::config_text({{"steps", "100"}, {"data", "a"}}) == "steps = 100\ndata = a\n");
  CHECK(message_of([] { gr::config_text({{"data", "a\nb"}}); }).find("'data' has a line end") != std::string::npos);
}

TEST_CASE("a configuration may have blanks, comments and no end of its last line, and nothing else") {
  const gradus_test::scratch_folder folder;
  const auto path = folder.path / "config";
  std::ofstream(path) << "  a=1\r\n\t# b = 2\nc =  x y \nd=";
  CHECK(gr::read_config(path) == gr::config_entries{{"a", "1"}, {"c", "x y"}, {"d", ""}});
  std::ofstream(path) << "";
  CHECK(gr::read_config(path).empty());
  const auto complaint = [&](const std::string& text) {
    std::ofstream(path) << text;
    return message_of([&] { gr::read_config(path); });
  };
  CHECK(complaint("a = 1\nbc\n").find("config: line 2: must be 'name = value', not 'bc'") != std::string::npos);
  CHECK(complaint("= 1").find("line 1: must be") != std::string::npos);
  CHECK(complaint("two words = 1").find("line 1: must be") != std::string::npos);
  CHECK(message_of([&] { gr::read_config(folder.path / "none"); }).find("no such file") != std::string::npos);
  CHECK(message_of([&] { gr::read_config(folder.path); }).find("is a directory") != std::string::npos);
}
