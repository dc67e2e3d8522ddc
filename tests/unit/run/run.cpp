// The parts of a run: its folder, what saves it, what tells of it.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <future>
#include <gradus/run/run_folder.hpp>
#include <gradus/run/run_reporter.hpp>
#include <gradus/run/run_saver.hpp>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "../../support/floating_modes.hpp"
#include "../../support/scratch_folder.hpp"
#include "../../support/system.hpp"

namespace {

namespace gr = gradus;
namespace fs = std::filesystem;

std::string contents(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

TEST_CASE("a log that is a symbolic link is not written through" * doctest::skip(gradus_test::on_windows)) {
  const gradus_test::scratch_folder folder;
  const auto victim = folder.path / "victim", log = folder.path / "log.jsonl";
  std::ofstream(victim) << "mine";
  fs::create_symlink(victim, log);
  CHECK_THROWS_AS(gr::run_log{log}, gr::error);
  CHECK(fs::file_size(victim) == 4);
}

TEST_CASE("a run folder is made, and one that holds something is refused") {
  const gradus_test::scratch_folder f;
  const auto made = gr::make_run_folder((f.path / "a" / "b").string());
  CHECK(fs::is_directory(made));
  CHECK_NOTHROW(gr::make_run_folder(made.string()));  // still empty
  std::ofstream(made / "file") << "x";
  CHECK_THROWS_WITH_AS(gr::make_run_folder(made.string()), doctest::Contains("is not empty; name another"), gr::error);
  CHECK_THROWS_WITH_AS(gr::make_run_folder((made / "file").string()), doctest::Contains("is not a folder"), gr::error);
}

TEST_CASE("of the checkpoints of a run, as many are kept as asked, the newest first") {
  const gradus_test::scratch_folder f;
  CHECK(gr::checkpoint_path(f.path) == f.path / "checkpoint.safetensors");
  CHECK(gr::older_checkpoint_paths(f.path, 1).empty());
  CHECK(gr::older_checkpoint_paths(f.path, 3) == std::vector<fs::path>{f.path / "checkpoint-previous.safetensors",
                                                                       f.path / "checkpoint-previous-2.safetensors"});
  for (const std::size_t age : {0u, 1u, 2u, 3u, 4u}) std::ofstream(gr::checkpoint_path(f.path, age)) << age;
  gr::remove_old_checkpoints(f.path, 3);
  for (const std::size_t age : {0u, 1u, 2u, 3u, 4u}) CHECK(fs::exists(gr::checkpoint_path(f.path, age)) == (age < 3));
  gr::move_damaged_checkpoint(f.path, 2);
  CHECK(contents(gr::checkpoint_path(f.path)) == "2");
  CHECK(contents(gr::checkpoint_path(f.path, 1)) == "1");
}

TEST_CASE("a damaged checkpoint gives its place to the one before") {
  const gradus_test::scratch_folder f;
  std::ofstream(gr::checkpoint_path(f.path)) << "damaged";
  std::ofstream(gr::checkpoint_path(f.path, 1)) << "good";
  gr::move_damaged_checkpoint(f.path);
  CHECK(contents(gr::checkpoint_path(f.path)) == "good");
  CHECK(contents(f.path / "checkpoint-damaged.safetensors") == "damaged");
  CHECK_FALSE(fs::exists(gr::checkpoint_path(f.path, 1)));
  gr::move_damaged_checkpoint(f.path / "nowhere");  // nothing to move
}

#if defined(__unix__) || defined(__APPLE__)
TEST_CASE("a run is locked while its lock lives") {
  const gradus_test::scratch_folder f;
  {
    const gr::run_lock first(f.path);
    CHECK_THROWS_WITH_AS(gr::run_lock(f.path), doctest::Contains("in progress in another process"), gr::error);
  }
  CHECK_NOTHROW(gr::run_lock(f.path));
  const gr::run_lock none(""), another("");  // lock nothing
}

TEST_CASE("a lock knows its folder from another of the same name") {
  const gradus_test::scratch_folder f;
  const fs::path folder = f.path / "run";
  fs::create_directory(folder);
  const gr::run_lock lock(folder);
  CHECK(lock.holds(folder));
  fs::remove(folder);
  CHECK_FALSE(lock.holds(folder));
  fs::create_directory(folder);
  CHECK_FALSE(lock.holds(folder));
}
#endif

TEST_CASE("a saver saves at its pace, and warns once where it cannot") {
  int checked = 0, written = 0;
  bool full = false;
  std::vector<std::string> warnings;
  gr::run_saver saver([&] { ++checked; },
                      [&] {
                        if (full) throw gr::error("the disk is full");
                        ++written;
                      },
                      [&](const std::string& text) { warnings.push_back(text); }, /*patience=*/0);
  saver.set_pace(0, 3);
  for (long long step = 1; step <= 10; ++step) saver.save_if_due(step);
  CHECK(written == 3);
  CHECK(checked == 3);
  full = true;
  for (long long step = 11; step <= 20; ++step) saver.save_if_due(step);
  REQUIRE(warnings.size() == 1);  // though it failed three times
  CHECK(warnings[0] == "the disk is full; the run goes on, and saving is tried again");
  CHECK(saver.save() == "the disk is full");
  full = false;
  CHECK(saver.save() == "");
  CHECK(written == 4);
  saver.set_pace(1e-9, 0);  // by the clock, always
  saver.save_if_due(21);
  CHECK(written == 5);
}

TEST_CASE("a saver that writes in the background lets the caller go on, and warns when it is finished") {
  std::vector<std::string> warnings;
  std::promise<void> disk;
  std::shared_future<void> ready = disk.get_future().share();
  bool full = false;
  std::atomic<int> written = 0;
  int written_here = 0;
  gr::run_saver saver([] {}, [&] { ++written_here; }, [&](const std::string& text) { warnings.push_back(text); },
                      /*patience=*/0);
  saver.set_pace(0, 1);
  saver.write_in_background([&] {
    return [&, now = ready, fails = full] {
      now.wait();
      if (fails) throw gr::error("the disk is full");
      ++written;
    };
  });
  saver.finish();  // nothing is being written
  saver.save_if_due(1);
  CHECK(written == 0);  // and yet here we are
  disk.set_value();
  saver.finish();
  CHECK(written == 1);
  saver.save_if_due(2);
  saver.save_if_due(3);  // waits for the one before
  CHECK(written >= 2);
  saver.finish();
  CHECK(written == 3);
  full = true;
  for (long long step = 4; step <= 8; ++step) saver.save_if_due(step);
  saver.finish();
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0] == "the disk is full; the run goes on, and saving is tried again");
  full = false;
  saver.save_if_due(9);
  saver.finish();
  CHECK(written == 4);
  saver.save_if_due(10);
  CHECK(saver.save() == "");  // once more, here, when the one before is written
  CHECK(written == 5);
  CHECK(written_here == 1);
}

TEST_CASE("a saver does not end before what it writes") {
  std::atomic<bool> written = false;
  {
    gr::run_saver saver([] {}, [] {}, [](const std::string&) {}, 0);
    saver.set_pace(0, 1);
    saver.write_in_background([&] {
      return [&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        written = true;
      };
    });
    saver.save_if_due(1);
  }
  CHECK(written);
}

TEST_CASE("a save in the background is written in the floating-point mode of the thread that began it") {
  for (const auto set_mode : gradus_test::unusual_modes()) {
    const gradus_test::usual_mode_again after;
    set_mode();
    auto written = decltype(gradus_test::marks_of_mode()){};
    gr::run_saver saver([] {}, [] {}, [](const std::string&) {}, 0);
    saver.set_pace(0, 1);
    saver.write_in_background([&] { return [&] { written = gradus_test::marks_of_mode(); }; });
    saver.save_if_due(1);
    saver.finish();
    CHECK(written == gradus_test::marks_of_mode());
  }
}

TEST_CASE("told to save at the end, a saver tries again while its patience lasts") {
  int tries = 0;
  std::vector<std::string> warnings;
  gr::run_saver saver([] {},
                      [&] {
                        if (++tries == 1) throw gr::error("no room");
                      },
                      [&](const std::string& text) { warnings.push_back(text); }, /*patience=*/0.05);
  CHECK(saver.save() == "");
  CHECK(tries == 2);
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].starts_with("no room; trying again in "));
}

TEST_CASE("a reporter logs steps, and a resumed one drops what came later") {
  const gradus_test::scratch_folder f;
  const gr::reporter_names names{.program = "test", .title = "A run"};
  {
    gr::run_reporter report(f.path, names);
    report.log({{"model", "m"}});
    for (int step = 1; step <= 4; ++step)
      report.step({.step = step, .loss = 5.0 - step, .validation = step == 2 ? 3.5 : std::nan("")});
  }
  std::ofstream(f.path / "log.jsonl", std::ios::app) << "{\"step\": 5, \"lo";  // cut short by a kill
  {
    gr::run_reporter report(f.path, names, 3);
    report.step({.step = 4, .loss = 7, .validation = 2});
  }
  const std::string log = contents(f.path / "log.jsonl");
  std::vector<std::string> lines;
  for (std::size_t at = 0, end; (end = log.find('\n', at)) != std::string::npos; at = end + 1)
    lines.push_back(log.substr(at, end - at));
  REQUIRE(lines.size() == 5);
  CHECK(lines[0] == "{\"model\": \"m\"}");
  CHECK(lines[1].starts_with("{\"step\": 1, \"loss\": 4,"));
  CHECK(lines[2].find("\"validation\": 3.5") != std::string::npos);
  CHECK(lines[3].starts_with("{\"step\": 3, \"loss\": 2,"));
  CHECK(lines[4].starts_with("{\"step\": 4, \"loss\": 7, \"validation\": 2,"));
  const std::string svg = contents(f.path / "loss.svg");
  CHECK(svg.find("A run") != std::string::npos);
  CHECK(svg.find("loss (nats a token)") != std::string::npos);
}

TEST_CASE("fields of a program's own are in the log's lines of validated steps") {
  const gradus_test::scratch_folder f;
  {
    gr::run_reporter report(f.path, {.program = "test", .title = "Test"});
    const std::vector<gr::log_field> own{{"loads", std::vector<double>{0.25, 0.75}}};
    report.step({.step = 1, .loss = 3, .fields = own});
    report.step({.step = 2, .loss = 2, .validation = 2.5, .fields = own, .note = "a line for the screen"});
  }
  const std::string log = contents(f.path / "log.jsonl");
  CHECK(log.find("\"loads\": [0.25, 0.75]}") != std::string::npos);
  CHECK(log.find("loads") == log.rfind("loads"));
}

TEST_CASE("a step that is logged and then validated is one step to a resumed run, and so is one that was taken again") {
  const gradus_test::scratch_folder f;
  const gr::reporter_names names{.program = "test", .title = "A run", .loss = "nats a byte"};
  {
    gr::run_reporter report(f.path, names);
    for (int step = 1; step <= 3; ++step) report.record({.step = step, .loss = 5.0 - step});
    report.step({.step = 3, .loss = 2, .validation = 2.5});
    // As a run that was resumed after step 2 and could not drop step 3.
    report.record({.step = 3, .loss = 2});
    report.record({.step = 4, .loss = 1});
  }
  CHECK(contents(f.path / "loss.svg").find("loss (nats a byte)") != std::string::npos);
  { gr::run_reporter report(f.path, names, 3); }
  const std::string log = contents(f.path / "log.jsonl");
  CHECK(std::ranges::count(log, '\n') == 3);
  CHECK(log.find("validation") == std::string::npos);  // the last line of step 3 counts
  CHECK(log.find("\"step\": 3, \"loss\": 2,") != std::string::npos);
}

TEST_CASE("a resumed run that took no step leaves the loss of the one before in the log") {
  const gradus_test::scratch_folder f;
  const gr::reporter_names names{.program = "test", .title = "A run"};
  {
    gr::run_reporter report(f.path, names);
    report.record({.step = 1, .loss = 2});
    report.record({.step = 1, .loss = std::nan(""), .validation = 3});
  }
  { gr::run_reporter report(f.path, names, 1); }
  const std::string log = contents(f.path / "log.jsonl");
  CHECK(std::ranges::count(log, '\n') == 1);
  CHECK(log.find("\"step\": 1, \"loss\": 2,") != std::string::npos);
}

TEST_CASE("a resumed run whose log cannot be written anew goes on, and drops what is too much later") {
  const gradus_test::scratch_folder f;
  const gr::reporter_names names{.program = "test", .title = "A run"};
  {
    gr::run_reporter report(f.path, names);
    for (int step = 1; step <= 5; ++step) report.record({.step = step, .loss = 1});
  }
  fs::create_directory(f.path / "log.jsonl.tmp");  // a full disk
  {
    gr::run_reporter report(f.path, names, 3);
    for (int step = 4; step <= 6; ++step) report.record({.step = step, .loss = 2});
  }
  CHECK(std::ranges::count(contents(f.path / "log.jsonl"), '\n') == 8);
  fs::remove(f.path / "log.jsonl.tmp");
  { gr::run_reporter report(f.path, names, 6); }
  const std::string log = contents(f.path / "log.jsonl");
  CHECK(std::ranges::count(log, '\n') == 6);
  CHECK(log.find("\"step\": 4, \"loss\": 2,") != std::string::npos);
}

TEST_CASE("a saver in a hurry saves at the next step, and warns once of each reason at the end") {
  int written = 0;
  std::string problem;
  std::vector<std::string> warnings;
  gr::run_saver saver([] {},
                      [&] {
                        if (!problem.empty()) throw gr::error(problem);
                        ++written;
                      },
                      [&](const std::string& text) { warnings.push_back(text); }, /*patience=*/1.2);
  saver.set_pace(0, 100);
  saver.save_if_due(1);
  CHECK(written == 0);
  saver.hurry();
  saver.save_if_due(2);
  saver.save_if_due(3);
  CHECK(written == 1);
  problem = "no room";
  CHECK(saver.save() == "no room");  // tried at once, after a second and at the end
  CHECK(warnings.size() == 1);
}

TEST_CASE("a write is retried until it succeeds or the patience is over, with one warning a reason") {
  std::vector<std::string> warnings;
  const auto warn = [&](const std::string& text) { warnings.push_back(text); };
  CHECK(gr::retry([] {}, warn, 0).empty());
  CHECK(warnings.empty());
  int tries = 0;
  const auto second_time = [&] {
    if (++tries < 2) throw gr::error("no room");
  };
  CHECK(gr::retry(second_time, warn, 0.05).empty());
  CHECK(warnings.size() == 1);
  CHECK(gr::retry([] { throw gr::error("never"); }, warn, 0) == "never");
}

TEST_CASE("a step whose loss comes late is logged once, when its loss is read, and shown after it") {
  const gradus_test::scratch_folder f;
  const auto lines = [&] {
    const std::string log = contents(f.path / "log.jsonl");
    return std::count(log.begin(), log.end(), '\n');
  };
  gr::run_reporter report(f.path, {.program = "test", .title = "t"});
  report.record_held();  // nothing is held
  CHECK(std::isnan(gr::run_reporter(f.path, {.program = "test", .title = "t"}).held_loss()));
  int reads = 0;
  const auto figures = [&] { return ++reads, gr::step_figures{.loss = 2.5, .norm = 0.5}; };
  gr::step_report step{.step = 1};
  report.hold(step, figures);
  CHECK(reads == 0);
  CHECK(lines() == 0);
  report.record_held();
  report.record_held();
  report.show_held();
  CHECK(report.held_loss() == 2.5);
  CHECK(reads == 1);
  CHECK(lines() == 1);
  CHECK(contents(f.path / "log.jsonl").find("\"norm\": 0.5") != std::string::npos);
  step.step = 2;
  report.hold(step, figures);
  step.validation = 3;
  report.hold(step, figures);  // validated meanwhile: one step, one line
  report.show_held();
  CHECK(lines() == 2);
  CHECK(contents(f.path / "log.jsonl").find("\"validation\": 3") != std::string::npos);
  step.step = 3;
  report.hold(step, []() -> gr::step_figures { throw gr::error("not finite"); });
  CHECK_THROWS_AS(report.show_held(), gr::error);
  CHECK(lines() == 2);
}

TEST_CASE("what cannot be written is a warning, and the run goes on") {
  const gradus_test::scratch_folder f;
  gr::run_reporter report(f.path, {.program = "test", .title = "A run"});
  fs::create_directory(f.path / "loss.svg");  // in the way of the picture
  CHECK_NOTHROW(report.step({.step = 1, .loss = 1, .validation = 1}));
  bool told = false;
  CHECK_NOTHROW(report.attempt([&] {
    told = true;
    throw gr::error("not this");
  }));
  CHECK(told);
}
