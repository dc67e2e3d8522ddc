#include <doctest/doctest.h>

#if !defined(_WIN32)
#include <unistd.h>
#endif

#include <filesystem>
#include <fstream>
#include <gradus/data/dataset.hpp>
#include <gradus/data/labelled_texts.hpp>
#include <gradus/io/text_file.hpp>
#include <gradus/tokenizer/text_tokenizer.hpp>
#include <string>
#include <utility>
#include <vector>

#include "../../support/scratch_folder.hpp"

namespace {

namespace fs = std::filesystem;

using temporary_folder = gradus_test::scratch_folder;

}  // namespace

TEST_CASE("a text file is read byte for byte") {
  const temporary_folder folder;
  const std::string a = (folder.path / "a").string();
  std::ofstream(a, std::ios::binary) << std::string("x\0\r\n\xff", 5) << "end";
  CHECK(gradus::read_text(a) == std::string("x\0\r\n\xff", 5) + "end");
}

TEST_CASE("a text file that cannot be used is refused in one line that names it") {
  const temporary_folder folder;
  const fs::path empty = folder.path / "empty";
  std::ofstream(empty).close();
  CHECK_THROWS_WITH_AS(gradus::read_text("/nowhere/book.txt"), "/nowhere/book.txt: no such file", gradus::error);
  CHECK_THROWS_WITH_AS(gradus::read_text(empty), (empty.string() + ": is empty").c_str(), gradus::error);
  CHECK_THROWS_WITH_AS(gradus::read_text(folder.path), doctest::Contains("is a directory"), gradus::error);
#if !defined(_WIN32)
  if (geteuid() != 0) {  // root may read anything
    const fs::path locked = folder.path / "locked";
    std::ofstream(locked) << "secret";
    fs::permissions(locked, fs::perms::none);
    CHECK_THROWS_WITH_AS(gradus::read_text(locked), doctest::Contains("cannot be read: Permission denied"),
                         gradus::error);
  }
#endif
}

TEST_CASE("bytes are tokens and back") {
  const std::string text = "caf\xc3\xa9\n";
  const auto tokens = gradus::byte_tokenizer::encode(text);
  CHECK(tokens.size() == 6);
  CHECK(tokens[3] == 0xc3);
  CHECK(gradus::byte_tokenizer::decode(tokens) == text);
}

TEST_CASE("what is no text is refused by its first bytes, wherever a text is read, with what to do") {
  using std::string_literals::operator""s;
  const temporary_folder folder;
  const std::pair<std::string, std::string> files[] = {{"\x1f\x8b\x08\0rest"s, "gunzip"},
                                                       {"BZh91AY"s, "bunzip2"},
                                                       {"\xfd"
                                                        "7zXZ\0rest"s,
                                                        "unxz"},
                                                       {"\x28\xb5\x2f\xfdrest"s, "unzstd"},
                                                       {"PK\3\4rest"s, "unzip"},
                                                       {"PAR1rest"s, "Parquet"},
                                                       {"\xff\xfet\0e\0"s, "UTF-16"},
                                                       {"\xfe\xff\0t\0e"s, "UTF-16"}};
  for (const auto& [bytes, what] : files) {
    CAPTURE(what);
    const fs::path path = folder.path / "text";
    std::ofstream(path, std::ios::binary) << bytes;
    CHECK_THROWS_WITH_AS(gradus::read_text(path), doctest::Contains(what.c_str()), gradus::error);
    CHECK_THROWS_WITH_AS(gradus::read_labelled_texts(path), doctest::Contains(what.c_str()), gradus::error);
    for (const std::vector<std::string>& names :
         {std::vector{path.string()}, std::vector{path.string(), path.string()}}) {
      gradus::dataset_files files_of_run;
      files_of_run.data = names;
      CHECK_THROWS_WITH_AS(gradus::dataset(files_of_run, 4), doctest::Contains(what.c_str()), gradus::error);
    }
  }
}
