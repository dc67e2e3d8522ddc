#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gradus/report/curve_svg.hpp>
#include <gradus/report/overfitting.hpp>
#include <gradus/report/progress.hpp>
#include <gradus/report/run_log.hpp>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#if defined(__unix__) || defined(__APPLE__)
#include <sys/resource.h>

#include <csignal>
#endif

#include "../../support/scratch_folder.hpp"
#include "../../support/system.hpp"

namespace fs = std::filesystem;

namespace {

gradus::progress::clock::time_point time_of_test;
gradus::progress::clock::time_point tell_time() { return time_of_test; }

std::string contents(std::FILE* file) {
  std::string text;
  std::rewind(file);
  for (int c; (c = std::fgetc(file)) != EOF;) text += static_cast<char>(c);
  return text;
}

}  // namespace

TEST_CASE("each line of a run log is one JSON object, and a second log goes on where the first ended") {
  const auto path = std::filesystem::temp_directory_path() / "gradus_run_log.jsonl";
  std::filesystem::remove(path);
  gradus::run_log(path).write({{"step", 3}, {"loss", 2.25}, {"note", "a \"b\"\n\x01 c\\d"}, {"done", false}});
  gradus::run_log(path).write(
      {{"loss", std::nan("")}, {"rate", 1e-3}, {"loads", std::vector<std::vector<double>>{{0.25, 0.75}, {}}}});
  std::ifstream in(path);
  std::string line;
  REQUIRE(std::getline(in, line));
  const auto first = nlohmann::json::parse(line);
  CHECK(first["step"] == 3);
  CHECK(first["loss"] == 2.25);
  CHECK(first["note"] == "a \"b\"\n\x01 c\\d");
  CHECK(first["done"] == false);
  REQUIRE(std::getline(in, line));
  const auto second = nlohmann::json::parse(line);
  CHECK(second["loss"].is_null());
  CHECK(second["rate"] == 1e-3);
  CHECK(second["loads"] == nlohmann::json{{0.25, 0.75}, nlohmann::json::array()});
  CHECK_FALSE(std::getline(in, line));
  in.close();
  std::filesystem::remove(path);
}

TEST_CASE("a run log that is removed, with its folder or without, is made again with all its lines" *
          doctest::skip(gradus_test::on_windows)) {
  const gradus_test::scratch_folder f;
  const fs::path path = f.path / "run" / "log.jsonl";
  fs::create_directories(path.parent_path());
  const auto text = [&] {
    std::ifstream in(path);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  gradus::run_log log(path);
  log.write({{"step", 1}});
  fs::remove(path);
  log.write({{"step", 2}});
  CHECK(text() == "{\"step\": 1}\n{\"step\": 2}\n");
  fs::remove_all(path.parent_path());
  log.write({{"step", 3}});
  CHECK(text() == "{\"step\": 1}\n{\"step\": 2}\n{\"step\": 3}\n");
  // Where that cannot be, a later line brings them all.
  fs::remove_all(path.parent_path());
  std::ofstream(path.parent_path()) << "in the way";
  CHECK_THROWS_AS(log.write({{"step", 4}}), gradus::error);
  fs::remove(path.parent_path());
  log.write({{"step", 5}});
  CHECK(text() == "{\"step\": 1}\n{\"step\": 2}\n{\"step\": 3}\n{\"step\": 5}\n");
}

TEST_CASE("a run log that cannot be written says so") {
  CHECK_THROWS_WITH_AS(gradus::run_log("/nowhere/log.jsonl"),
                       doctest::Contains("/nowhere/log.jsonl: cannot be written"), gradus::error);
  if (std::filesystem::exists("/dev/full")) {
    gradus::run_log log("/dev/full");
    CHECK_THROWS_WITH_AS(log.write({{"step", 1}}), doctest::Contains("No space left"), gradus::error);
  }
}

#if defined(__unix__) || defined(__APPLE__)
TEST_CASE("a line that a full disk cut off stays alone: the next one that can be written begins anew") {
  const auto path = std::filesystem::temp_directory_path() / "gradus_torn_log.jsonl";
  std::filesystem::remove(path);
  // A limit on the size of files stands for the full disk.
  const auto previous = std::signal(SIGXFSZ, SIG_IGN);
  rlimit all{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &all) == 0);
  gradus::run_log log(path);
  log.write({{"step", 1}});
  rlimit little = all;
  little.rlim_cur = 20;
  setrlimit(RLIMIT_FSIZE, &little);
  CHECK_THROWS_WITH_AS(log.write({{"step", 2}, {"loss", 2.5}}), doctest::Contains("cannot be written"), gradus::error);
  CHECK_THROWS_AS(log.write({{"step", 3}}), gradus::error);
  setrlimit(RLIMIT_FSIZE, &all);
  std::signal(SIGXFSZ, previous);
  log.write({{"step", 4}});
  log.write({{"step", 5}});
  std::ifstream in(path);
  std::string text(std::istreambuf_iterator<char>(in), {});
  CHECK(text == "{\"step\": 1}\n{\"step\":\n{\"step\": 4}\n{\"step\": 5}\n");
  std::filesystem::remove(path);
}
#endif

TEST_CASE("a chart shows its title, axes and curves, and leaves out points that are not finite") {
  const std::vector<gradus::curve> curves{{"train", "#1f77b4", {0, 100, 200, 300}, {5.5, 3, std::nan(""), 2.125}},
                                          {"a < b", "red", {100, 300}, {3.5, std::numeric_limits<double>::infinity()}}};
  const std::string svg = gradus::curve_svg({"loss & more", "step", "nats"}, curves);
  CHECK(svg.starts_with("<svg xmlns"));
  CHECK(svg.ends_with("</svg>\n"));
  for (const char* part :
       {"loss &amp; more", ">step<", ">nats<", "train (2.125)", "a &lt; b (3.500)", ">300<", ">2<", "#1f77b4"})
    CHECK_MESSAGE(svg.find(part) != std::string::npos, part);
  CHECK(svg.find("nan") == std::string::npos);
  CHECK(svg.find("inf") == std::string::npos);
}

TEST_CASE("a chart of nothing, of one point and of huge numbers is still a chart") {
  for (const std::vector<double>& y :
       {std::vector<double>{}, std::vector<double>{2.5}, std::vector<double>{0}, std::vector<double>{1e30}}) {
    const std::vector<gradus::curve> curves{{"c", "blue", std::vector<double>(y.size(), 1e7), y}};
    const std::string svg = gradus::curve_svg({"t", "x", "y"}, curves);
    CHECK(svg.ends_with("</svg>\n"));
    CHECK(svg.find("nan") == std::string::npos);
    CHECK(svg.size() < 20000);
  }
}

TEST_CASE("the progress bar is full at the end, empty at the start and within bounds everywhere") {
  CHECK(gradus::progress_bar(0, 4) == "----");
  CHECK(gradus::progress_bar(0.5, 4) == "##--");
  CHECK(gradus::progress_bar(1, 4) == "####");
  CHECK(gradus::progress_bar(7, 4) == "####");
  CHECK(gradus::progress_bar(std::nan(""), 4) == "----");
}

TEST_CASE("progress writes plain lines to a file and redraws one on a terminal") {
  std::FILE* file = std::tmpfile();
  REQUIRE(file != nullptr);
  {
    gradus::progress plain(file, false);
    plain.update(0.1, "step 1");
    plain.update(0.2, "step 2");  // too soon
    plain.line("validation");
    plain.clear();
  }
  CHECK(contents(file) == "step 1\nvalidation\n");
  std::fclose(file);

  file = std::tmpfile();
  {
    gradus::progress bar(file, true);
    bar.update(0.5, "step 1");
    bar.clear();
    bar.line("validation");
  }
  CHECK(contents(file) == "\r[##########----------]  50 % step 1\033[K\r\033[Kvalidation\n");
  std::fclose(file);
}

#if defined(__unix__) || defined(__APPLE__)
TEST_CASE("on a narrow terminal a percentage stands in place of the bar, and leaves room for figures") {
  const char* const before = std::getenv("COLUMNS");
  const std::string kept = before == nullptr ? "" : before;
  gradus_test::set_variable("COLUMNS", "40");
  std::FILE* file = std::tmpfile();
  REQUIRE(file != nullptr);
  {
    gradus::progress bar(file, true);
    CHECK(bar.room() == 33);
    bar.update(0.5, "loss 2.9530  1 h 20 min left");
  }
  CHECK(contents(file) == "\r 50 % loss 2.9530  1 h 20 min left\033[K\r\033[K");
  std::fclose(file);
  gradus_test::set_variable("COLUMNS", before == nullptr ? nullptr : kept.c_str());
}
#endif

TEST_CASE("progress waits ten seconds after the last line of a file, and a fifth of one after the last bar") {
  const auto at = [](int milliseconds) {
    time_of_test = {};
    time_of_test += std::chrono::milliseconds(milliseconds);
  };
  std::FILE* file = std::tmpfile();
  REQUIRE(file != nullptr);
  {
    gradus::progress plain(file, false, tell_time);
    at(0), plain.update(0.1, "step 1");
    at(9'000), plain.line("validation");
    at(18'999), plain.update(0.2, "step 2");  // too soon after the line
    CHECK_FALSE(plain.due());
    at(19'000), plain.update(0.3, "step 3");
  }
  CHECK(contents(file) == "step 1\nvalidation\nstep 3\n");
  std::fclose(file);

  file = std::tmpfile();
  REQUIRE(file != nullptr);
  {
    gradus::progress bar(file, true, tell_time);
    at(0), bar.update(0.1, "step 1");
    at(150), bar.line("validation");
    at(199), bar.update(0.2, "step 2");
    CHECK_FALSE(bar.due());
    at(200), bar.update(0.3, "step 3");  // a line does not put off the bar
  }
  const std::string text = contents(file);
  CHECK(text.find("validation\n\r[") != std::string::npos);
  CHECK(text.find("step 2") == std::string::npos);
  CHECK(text.find("step 3") != std::string::npos);
  std::fclose(file);
}

TEST_CASE("lines are broken at spaces, and no longer than the screen") {
  using gradus::wrap_text;
  CHECK(wrap_text("one two three", 80) == "one two three");
  CHECK(wrap_text("one two three", 8) == "one two\n  three");
  CHECK(wrap_text("one two three\nfour", 7, 0) == "one two\nthree\nfour");
  CHECK(wrap_text("a/very/long/name stays whole", 8) == "a/very/long/name\n  stays\n  whole");
  CHECK(wrap_text("", 8) == "");
  CHECK(wrap_text("a\n", 8) == "a\n");
  CHECK(wrap_text("  indented text here", 16) == "  indented text\n  here");
  CHECK(wrap_text("\xC3\xA9\xC3\xA9\xC3\xA9 \xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9", 8) ==
        "\xC3\xA9\xC3\xA9\xC3\xA9 \xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9");  // 8 characters
  CHECK(wrap_text("word   ", 4) == "word   ");                         // nothing behind it to break off
}

TEST_CASE("figures that matter least are left out first") {
  const std::vector<gradus::line_part> parts{{"step 1", 0}, {"lr 1e-3", 5}, {"loss 2.5", 0}, {"3 s left", 2}};
  CHECK(gradus::fitting_line(parts, 80) == "step 1  lr 1e-3  loss 2.5  3 s left");
  CHECK(gradus::fitting_line(parts, 34) == "step 1  loss 2.5  3 s left");
  CHECK(gradus::fitting_line(parts, 20) == "step 1  loss 2.5");
  CHECK(gradus::fitting_line(parts, 3) == "step 1  loss 2.5");  // these stay
  CHECK(gradus::fitting_line({}, 3) == "");
}

TEST_CASE("times are told in the unit that fits") {
  CHECK(gradus::time_text(0.4) == "0 s");
  CHECK(gradus::time_text(99) == "99 s");
  CHECK(gradus::time_text(100) == "2 min");
  CHECK(gradus::time_text(5400) == "90 min");
  CHECK(gradus::time_text(3 * 3600 + 59) == "3 h");
  CHECK(gradus::time_text(3 * 3600 + 600) == "3 h 10 min");
  CHECK(gradus::time_text(50 * 3600) == "2 d 2 h");
  CHECK(gradus::time_text(std::nan("")) == "?");
  CHECK(gradus::time_text(std::numeric_limits<double>::infinity()) == "?");
}

TEST_CASE("overfitting is a validation loss that rises while the training loss falls") {
  const std::vector<double> at{10, 20, 30, 40, 50};
  std::vector<double> steps, falling, level;
  for (int s = 1; s <= 50; ++s) steps.push_back(s), falling.push_back(5.0 / s), level.push_back(3);
  const auto find = [&](const std::vector<double>& train, std::vector<double> validation) {
    return gradus::find_overfitting(steps, train, at, validation);
  };
  const auto found = find(falling, {3, 2, 2.1, 2.2, 2.3});
  REQUIRE(found);
  CHECK(found->step == 20);
  CHECK(found->lowest == 2);
  CHECK(found->now == 2.3);
  CHECK_FALSE(find(level, {3, 2, 2.1, 2.2, 2.3}));    // both stand still: noise
  CHECK_FALSE(find(falling, {3, 2.5, 2, 2.2, 2.3}));  // only two evaluations since
  CHECK_FALSE(find(falling, {3, 2, 2.4, 2.2, 2.1}));  // on its way down again
  CHECK_FALSE(find(falling, {3, 2.5, 2.4, 2.3, 2.2}));
  CHECK_FALSE(find(falling, {3, 2, 2.1, 2.2, std::nan("")}));
  CHECK_FALSE(gradus::find_overfitting({}, {}, {}, {}));
  CHECK_FALSE(gradus::find_overfitting({}, {}, at, {1, 2, 3, 4, 5}));
}
