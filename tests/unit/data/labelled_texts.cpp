// Tables of texts and labels.
#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <gradus/data/labelled_texts.hpp>
#include <gradus/io/atomic_file.hpp>
#include <string>
#include <vector>

namespace gr = gradus;
using texts = std::vector<std::string>;
using labels = std::vector<std::int32_t>;

namespace {

gr::labelled_texts read_table(const std::string& text, const gr::labelled_text_options& options = {}) {
  const auto path = std::filesystem::temp_directory_path() / "gradus_labelled.tsv";
  gr::write_file_atomically(path, text);
  return gr::read_labelled_texts(path, options);
}

void refused(const std::string& text, const gr::labelled_text_options& options, const char* message) {
  CHECK_THROWS_WITH_AS(read_table(text, options), doctest::Contains(message), gr::error);
}

}  // namespace

TEST_CASE("labels that are numbers stand for themselves") {
  const auto all = read_table("good \"film\"\t1\n bad, too \t0\r\ncaf\u00E9\t3\n\n");
  CHECK(all.texts == texts{"good \"film\"", "bad, too", "caf\u00E9"});
  CHECK(all.second_texts.empty());
  CHECK(all.labels == labels{1, 0, 3});
  CHECK(all.label_names == texts{"0", "1", "2", "3"});
}

TEST_CASE("labels that are names are numbered in their order, or as is asked for") {
  const std::string table = "yes!\tpos\nno\tneg\nwell\tneutral\nno, no\tneg\n";
  const auto found = read_table(table);
  CHECK(found.label_names == texts{"neg", "neutral", "pos"});
  CHECK(found.labels == labels{2, 0, 1, 0});
  CHECK(read_table(table, {.label_names = {"pos", "neg", "neutral"}}).labels == labels{0, 1, 2, 1});
  CHECK(read_table("so\tneutral", {.label_names = found.label_names}).labels == labels{1});
  CHECK(read_table("so\t1\nno\t01\n").label_names == texts{"01", "1"});
}

TEST_CASE("columns may be anywhere, of two texts and with a header") {
  const auto pairs = read_table("id,gold,a,b\n7,1,one,two\n8,0,,four\n",
                                {.delimiter = ',', .header = true, .text = 2, .second_text = 3, .label = 1});
  CHECK(pairs.texts == texts{"one", ""});
  CHECK(pairs.second_texts == texts{"two", "four"});
  CHECK(pairs.labels == labels{1, 0});
  CHECK(pairs.columns == 4);  // the first is ignored
}

TEST_CASE("a table that cannot be read is refused in one line, with the line's number") {
  refused("", {}, "gradus_labelled.tsv: is empty");
  refused("a\t1\nb\n", {}, "gradus_labelled.tsv: line 2 has 1 fields; the first row has 2");
  refused("a\nb\n", {}, "line 1 has 1 columns; columns count from 0, and there is no column 1");
  refused("a\t1\n", {.label = 2}, "there is no column 2");
  refused("a\t1\nb\t0\nc\xff\t0\n", {}, "line 3, column 1: is not UTF-8");
  refused("a\tx\nb\t\xff\n", {}, "line 2, column 2: is not UTF-8");
  refused("a\t1\n\t\n", {}, "line 2: has no label");
  refused("a\t1\nb\t4\n", {.classes = 4}, "line 2: the label '4' is class 4; the classes are 0 to 3");
  refused("h\th\na\tx\nb\ty\n", {.header = true, .classes = 1}, "line 3: the label 'y' is class 1; the classes are");
  refused("a\tgood\nb\tbad\n", {.label_names = {"good", "poor"}}, "line 2: the label 'bad' is none of: good, poor");
  refused("text\tlabel\na\t1\nb\t0\n", {},
          "line 1: the label 'label' is not a number, as all others are; if the first");
  CHECK_THROWS_WITH_AS(gr::read_labelled_texts("/nowhere/t.tsv"), "/nowhere/t.tsv: no such file", gr::error);
}
