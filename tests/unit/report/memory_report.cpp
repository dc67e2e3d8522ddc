#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <gradus/report/memory_report.hpp>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "../../support/full_disk.hpp"

namespace gr = gradus;
using json = nlohmann::json;

namespace {

// Three operations, one within another, and five blocks. Peak 1000 + 300 + 50 + 20 at the fourth request.
gr::step_trace small_trace() {
  using gr::category;
  using gr::phase;
  gr::step_trace t;
  t.live_before = 1000;
  t.live_before_by[static_cast<std::size_t>(category::parameter)] = 600;
  t.live_before_by[static_cast<std::size_t>(category::optimizer_state)] = 400;
  t.blocks = {{100, category::input, "", phase::outside, 0, 9, 3, ""},
              {200, category::activation, "linear", phase::forward, 1, 8, 0, "tanh"},
              {50, category::gradient, "tanh", phase::backward, 2, 7, 1, ""},
              {20, category::temporary, "again", phase::recompute, 3, 4, 2, ""},
              {5, category::activation, "tanh", phase::backward, 5, 6, 1, ""}};
  t.events = {{0, true}, {1, true},  {2, true},  {3, true},  {3, false},
              {4, true}, {4, false}, {2, false}, {1, false}, {0, false}};
  t.ops = {{{"linear", phase::forward, {1000, 40, 8}}, 1, 2},
           {{"tanh", phase::backward, {30, 4, 4}}, 2, 8},
           {{"again", phase::recompute, {7, 2, 1}}, 3, 5}};
  return t;
}

gr::step_trace timed(gr::step_trace t) {
  t.event_us = {0.5, 1.25, 10, 20.125, 21, 22, 23.0625, 30, 41, 42};
  const double begin[] = {1, 9.5, 20.01}, end[] = {3, 40, 21.5};
  for (std::size_t i = 0; i < 3; ++i) t.ops[i].begin_us = begin[i], t.ops[i].end_us = end[i];
  return t;
}

// Many blocks, each living over a few later requests, with an operation each.
gr::step_trace large_trace(std::size_t blocks) {
  gr::step_trace t;
  for (std::size_t i = 0; i < blocks; ++i) {
    const std::size_t first = t.events.size();
    t.blocks.push_back({std::size_t{1} << 30, gr::category::activation, "causal_attention", gr::phase::forward, first,
                        0, i, "causal_attention"});
    t.events.push_back({i, true});
    if (i >= 7) t.events.push_back({i - 7, false});
    t.ops.push_back({{"causal_attention", gr::phase::forward, {1u << 30, 1u << 20, 1u << 20}}, first, t.events.size()});
  }
  for (std::size_t i = blocks - std::min<std::size_t>(7, blocks); i < blocks; ++i) t.events.push_back({i, false});
  for (std::size_t e = 0; e < t.events.size(); ++e) {
    if (!t.events[e].begins) t.blocks[t.events[e].block].until = e;
    t.event_us.push_back(1234.5678 * static_cast<double>(e));
  }
  for (gr::op_span& op : t.ops) {
    op.begin_us = 1234.5 * static_cast<double>(op.first_event);
    op.end_us = 1234.5 * static_cast<double>(op.last_event);
  }
  return t;
}

std::filesystem::path scratch(const std::string& name) { return std::filesystem::temp_directory_path() / name; }

std::string contents(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

// What the page's script reads.
json page_data(const std::string& page) {
  const std::string start = "<script type=\"application/json\" id=\"data\">";
  const std::size_t from = page.find(start) + start.size();
  return json::parse(page.substr(from, page.find("</script>", from) - from));
}

}  // namespace

TEST_CASE("the table of a step has a row for each operation and says what the peak is made of, and when it is") {
  const std::string table = gr::memory_table(gr::summarize(small_trace()));
  std::istringstream lines(table);
  std::string line;
  std::vector<std::string> rows;
  while (std::getline(lines, line)) {
    rows.push_back(line);
    CHECK(line.size() <= 100);
    for (const char c : line) CHECK_MESSAGE((c >= ' ' && c <= '~'), line);
  }
  REQUIRE(rows.size() == 5 + 1 + 9);
  const auto words = [](const std::string& row) {
    std::istringstream in(row);
    return std::vector<std::string>(std::istream_iterator<std::string>(in), {});
  };
  using list = std::vector<std::string>;
  CHECK(words(rows[0]) == list{"operation", "forward", "recompute", "backward", "other", "work", "moved", "saved"});
  CHECK(words(rows[1]) == list{"linear", "1", "0", "0", "0", "1.0", "kFLOP", "48", "B", "0", "B"});
  CHECK(words(rows[2]) == list{"tanh", "0", "0", "1", "0", "30", "FLOP", "8", "B", "200", "B"});
  CHECK(words(rows[3]) == list{"again", "0", "1", "0", "0", "7", "FLOP", "3", "B", "0", "B"});
  CHECK(words(rows[4]) == list{"all", "1", "1", "1", "0", "1.0", "kFLOP", "59", "B", "200", "B"});
  for (std::size_t i = 1; i < 5; ++i) CHECK(rows[i].size() == rows[0].size());
  CHECK(rows[6].find("1.34 KiB") != std::string::npos);
  CHECK(rows[6].find("again, recompute, request 4 of 5") != std::string::npos);
  CHECK(words(rows[7]) == list{"parameter", "600", "B", "43.8", "%"});
  CHECK(words(rows[10]) == list{"activation", "200", "B", "14.6", "%"});
  CHECK(words(rows[14]) == list{"persistent", "1000", "B", "73.0", "%"});
}

TEST_CASE("the table of a step holds its width with names and numbers of any size, and of nothing") {
  gr::step_trace t = small_trace();
  t.ops[0].what.name = "a name that is far too long for any column of a table \xc3\xa9\n";
  t.ops[0].what.work = {999'999'000'000'000'000u, 1'099'000'000'000'000u, 0};
  t.blocks[3].source = t.ops[0].what.name;
  t.ops[1].what.name = "\x1b[31m";
  const std::string table = gr::memory_table(gr::summarize(t));
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    CHECK_MESSAGE(line.size() <= 100, line);
    for (const char c : line) CHECK_MESSAGE((c >= ' ' && c <= '~'), line);
  }
  CHECK(table.find("a name that is far t") != std::string::npos);
  const std::string empty = gr::memory_table(gr::summarize({}));
  CHECK(empty.find("nan") == std::string::npos);
  CHECK(empty.find("persistent") != std::string::npos);
}

TEST_CASE("a name as long as its column is cut, so that a blank follows") {
  gr::step_trace t = small_trace();
  t.ops[0].what.name = "a name of 23 characters";
  t.ops[1].what.name = "a name of 24 characters.";
  const std::string table = gr::memory_table(gr::summarize(t));
  CHECK(table.find("a name of 23 characters ") != std::string::npos);
  CHECK(table.find("a name of 24 characte.. ") != std::string::npos);
}

TEST_CASE("a number as wide as its column is not cut") {
  gr::step_summary plan;
  plan.op_count = 1;
  plan.ops[0].name = "tanh";
  plan.ops[0].phases[static_cast<std::size_t>(gr::phase::forward)].runs = 12345678;
  CHECK(gr::memory_table(plan).find(" 12345678 ") != std::string::npos);
}

TEST_CASE("without times an event is a microsecond") {
  const gr::trace_times plain(small_trace());
  CHECK_FALSE(plain.measured);
  CHECK(plain.event == std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  CHECK(plain.end == 10);
  CHECK(plain.op_begin == std::vector<double>{1, 2, 3});
  CHECK(plain.op_end == std::vector<double>{2, 8, 5});

  const gr::step_trace t = timed(small_trace());
  CHECK(gr::trace_times(t).measured);
  CHECK(gr::trace_times(t).event == t.event_us);
  CHECK(gr::trace_times(t).end == 42);
}

TEST_CASE("a Perfetto trace has nested spans of the operations and counters that follow the live bytes") {
  const auto path = scratch("gradus_memory.json");
  const gr::step_trace planned = small_trace();
  const gr::step_trace measured = timed(planned);
  gr::write_perfetto(path, planned, &measured);
  const json trace = json::parse(contents(path));
  std::filesystem::remove(path);
  for (const int process : {1, 2}) {
    CAPTURE(process);
    const gr::step_trace& t = process == 1 ? planned : measured;
    std::vector<json> spans, counters, totals, names;
    for (const json& e : trace["traceEvents"]) {
      if (e["pid"] != process) continue;
      if (e["ph"] == "X") spans.push_back(e);
      else if (e["ph"] == "M") names.push_back(e);
      else if (e["name"] == "live bytes") counters.push_back(e);
      else totals.push_back(e);
    }
    REQUIRE(names.size() == 3);
    CHECK(names[0]["name"] == "process_name");
    CHECK(names[0]["args"]["name"] == (process == 1 ? "planned" : "measured"));

    REQUIRE(spans.size() == 3);
    CHECK(spans[0]["name"] == "linear");
    CHECK(spans[0]["cat"] == "forward");
    CHECK(spans[0]["args"] == json{{"flops", 1000}, {"bytes", 48}, {"saved", 0}});
    CHECK(spans[1]["args"]["saved"] == 200);  // as in the table
    CHECK(spans[2]["args"]["saved"] == 0);
    CHECK(spans[2]["cat"] == "recompute");
    std::vector<long long> open;
    for (const json& s : spans) {
      const auto ns = [](const json& us) { return std::llround(us.get<double>() * 1000); };
      const long long begin = ns(s["ts"]), end = begin + ns(s["dur"]);
      while (!open.empty() && open.back() <= begin) open.pop_back();
      if (!open.empty()) CHECK(end <= open.back());
      open.push_back(end);
    }
    CHECK(open.size() == 2);  // the recomputation lies within the backward

    REQUIRE(counters.size() == t.events.size() + 1);
    REQUIRE(totals.size() == counters.size());
    CHECK(counters[0]["args"]["parameter"] == 600);
    CHECK(counters[0]["args"]["optimizer state"] == 400);
    CHECK(counters[4]["args"] == json{{"parameter", 600},
                                      {"gradient", 50},
                                      {"optimizer state", 400},
                                      {"activation", 200},
                                      {"temporary", 20},
                                      {"input", 100},
                                      {"state", 0}});
    std::size_t peak = 0;
    for (const json& c : totals) peak = std::max(peak, c["args"]["all"].get<std::size_t>());
    CHECK(peak == gr::summarize(t).peak_bytes);
    CHECK(totals.back()["args"]["all"] == 1000);
    CHECK(counters[4]["ts"] == (process == 1 ? 3.0 : 20.125));
  }
}

TEST_CASE("a Perfetto trace counts kept bytes for the first operation of the name that was not over at the request") {
  const auto path = scratch("gradus_memory_saved.json");
  gr::step_trace t;
  for (std::size_t i = 0; i < 3; ++i) {
    t.ops.push_back({{"tanh", gr::phase::forward, {}}, 2 * i, 2 * i + 2});
    t.blocks.push_back(
        {10 * (i + 1), gr::category::activation, "tanh", gr::phase::forward, 2 * i, 2 * i + 1, i, "tanh"});
    t.events.push_back({i, true});
    t.events.push_back({i, false});
  }
  t.blocks.push_back(
      {1000, gr::category::activation, "tanh", gr::phase::recompute, 4, 5, 2, "tanh"});  // kept by nobody
  gr::write_perfetto(path, t, nullptr);
  const json trace = json::parse(contents(path));
  std::filesystem::remove(path);
  std::vector<int> saved;
  for (const json& e : trace["traceEvents"])
    if (e["ph"] == "X") saved.push_back(e["args"]["saved"]);
  CHECK(saved == std::vector<int>{10, 20, 30});
}

TEST_CASE("a Perfetto trace of a plan alone, and of nothing, is JSON") {
  const auto path = scratch("gradus_memory_alone.json");
  gr::step_trace t = small_trace();
  t.ops[0].what.name = "quote \" back\\slash \n";
  gr::write_perfetto(path, t, nullptr);
  json trace = json::parse(contents(path));
  CHECK(trace["traceEvents"][3]["name"] == "quote \" back\\slash \n");
  for (const json& e : trace["traceEvents"]) CHECK(e["pid"] == 1);
  gr::write_perfetto(path, {}, nullptr);
  trace = json::parse(contents(path));
  CHECK(trace["traceEvents"].size() == 3 + 2);
  std::filesystem::remove(path);
}

TEST_CASE("a memory page holds the traces, the tables and everything it needs") {
  const auto path = scratch("gradus_memory.html");
  const gr::step_trace planned = small_trace();
  const gr::step_trace measured = timed(planned);
  gr::write_memory_page(path, "GPT", planned, &measured, {0, 100, 300, 350, 350});
  const std::string page = contents(path);
  std::filesystem::remove(path);
  CHECK(page.starts_with("<!doctype html>"));
  CHECK(page.ends_with("</html>\n"));
  CHECK(page.find("{{") == std::string::npos);
  for (const char* part : {"http://", "https://", "src=", "@import", "url("})
    CHECK_MESSAGE(count(page, part) == count(page, "createElementNS('" + std::string(part)), part);
  for (const char* part : {"<title>GPT</title>", "prefers-color-scheme: dark", "@media print", "1.34 KiB",
                           "again, recompute, request 4 of 5", "<td>linear</td>", "to the byte", "0.002 ms"})
    CHECK_MESSAGE(page.find(part) != std::string::npos, part);

  const json data = page_data(page);
  REQUIRE(data["traces"].size() == 2);
  CHECK(data["categories"].size() == gr::category_count);
  CHECK(data["phases"].size() == gr::phase_count);
  for (const json& t : data["traces"]) {
    CHECK(t["before"] == json{600, 0, 400, 0, 0, 0, 0});
    REQUIRE(t["blocks"].size() == 5);
    REQUIRE(t["ops"].size() == 3);
    CHECK(t["times"].size() == 10);
    const auto name = [&](const json& number) { return data["names"][number.get<std::size_t>()]; };
    CHECK(t["blocks"][0][2] == -1);
    CHECK(t["blocks"][1][0] == 200);
    CHECK(name(t["blocks"][1][2]) == "linear");
    CHECK(name(t["blocks"][1][6]) == "tanh");
    CHECK(name(t["ops"][2][0]) == "again");
  }
  CHECK(data["traces"][0]["unit"] == "");
  CHECK(data["traces"][0]["offsets"] == json{0, 100, 300, 350, 350});
  CHECK(data["traces"][1]["unit"] == "measured");
  CHECK(data["traces"][1]["times"][3] == 20.12);
  CHECK_FALSE(data["traces"][1].contains("offsets"));
}

TEST_CASE("names and titles cannot break out of a memory page") {
  const auto path = scratch("gradus_memory_names.html");
  gr::step_trace t = small_trace();
  t.ops[0].what.name = t.blocks[1].source = "</script><script>alert(\"1\")</script>";
  t.ops[1].what.name = t.blocks[1].saved_by = "<!-- {{data}} &";
  gr::write_memory_page(path, "<b>{{script}}</b> & \"more\"", t, nullptr);
  const std::string page = contents(path);
  std::filesystem::remove(path);
  CHECK(count(page, "<script") == 2);
  CHECK(count(page, "</script") == 2);
  CHECK(page.find("<!--") == std::string::npos);
  CHECK(page.find("<title>&lt;b&gt;{{script}}&lt;/b&gt; &amp; &quot;more&quot;</title>") != std::string::npos);
  const json data = page_data(page);
  CHECK(std::count(data["names"].begin(), data["names"].end(), "</script><script>alert(\"1\")</script>") == 1);
  CHECK(std::count(data["names"].begin(), data["names"].end(), "<!-- {{data}} &") == 1);
}

TEST_CASE("the page of 5000 events, planned and measured, stays under a megabyte; that of nothing is a page") {
  const auto path = scratch("gradus_memory_large.html");
  const gr::step_trace t = large_trace(2500);
  REQUIRE(t.events.size() == 5000);
  gr::write_memory_page(path, "large", t, &t, std::vector<std::size_t>(t.blocks.size(), std::size_t{7} << 40));
  CHECK(std::filesystem::file_size(path) < 1'000'000);
  CHECK(page_data(contents(path))["traces"][1]["blocks"].size() == 2500);
  gr::write_memory_page(path, "", {}, nullptr);
  CHECK(page_data(contents(path))["traces"][0]["blocks"].empty());
  CHECK(contents(path).find("nan") == std::string::npos);
  std::filesystem::remove(path);
}

TEST_CASE("a report that cannot be written says so in one line and leaves the old file in its place" *
          doctest::skip(gradus_test::on_windows)) {
  const gr::step_trace t = small_trace();
  const auto folder = scratch("gradus_memory_folder");
  std::filesystem::create_directories(folder / "inside");
  const auto write = [&](const std::filesystem::path& path) {
    CHECK_THROWS_WITH_AS(gr::write_memory_page(path, "t", t, nullptr),
                         doctest::Contains((path.string() + ": cannot be written: ").c_str()), gr::error);
    CHECK_THROWS_WITH_AS(gr::write_perfetto(path, t, nullptr),
                         doctest::Contains((path.string() + ": cannot be written: ").c_str()), gr::error);
  };
  write("/nowhere/at/all.html");
  write(folder);
  CHECK(std::filesystem::exists(folder / "inside"));
  CHECK_FALSE(std::filesystem::exists(folder.string() + ".tmp"));

  const auto old = folder / "old.html";
  std::ofstream(old) << "old";
  std::filesystem::create_directories(old.string() + ".tmp/full");  // where the new bytes would go
  write(old);
  CHECK(contents(old) == "old");
  std::filesystem::remove_all(old.string() + ".tmp");
  {
    const gradus_test::full_disk disk(100);
    CHECK_THROWS_WITH_AS(gr::write_memory_page(old, "t", t, nullptr), doctest::Contains("File too large"), gr::error);
  }
  CHECK(contents(old) == "old");
  CHECK_THROWS_WITH_AS(gr::write_memory_page(old, "t", t, nullptr, {1, 2}),
                       doctest::Contains("2 offsets for 5 blocks; there must be one for each block"), gr::error);
  CHECK(contents(old) == "old");
  std::filesystem::remove_all(folder);
}
