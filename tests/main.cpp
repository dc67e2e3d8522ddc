// The one main() of every test program. doctest's implementation is compiled here, once, not in each program.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <cstdlib>
#include <functional>
#include <ostream>
#include <random>
#include <string>
#include <string_view>

#include "support/seed.hpp"

namespace {

unsigned seed_of_run() {
  static const unsigned seed = [] {
    const char* text = std::getenv("GRADUS_TEST_SEED");
    return text != nullptr ? static_cast<unsigned>(std::strtoul(text, nullptr, 10)) : std::random_device{}();
  }();
  return seed;
}
bool seed_used = false;

// Says, where a test failed that drew numbers, how to draw them again.
struct seed_printer : doctest::IReporter {
  std::ostream* out;
  explicit seed_printer(const doctest::ContextOptions& options) : out(options.cout) {}
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats& run) override {
    if (run.numTestCasesFailed > 0 && seed_used)
      *out << "GRADUS_TEST_SEED=" << seed_of_run() << " draws the same random inputs again\n";
  }
  void test_case_start(const doctest::TestCaseData&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};
REGISTER_LISTENER("seed", 1, seed_printer);

}  // namespace

unsigned gradus_test::fresh_seed() {
  static const doctest::TestCaseData* current = nullptr;
  static unsigned asked = 0;
  const doctest::TestCaseData* now = doctest::getContextOptions()->currentTest;
  if (now != current) current = now, asked = 0;
  seed_used = true;
  const std::string_view name = now != nullptr ? now->m_name : "";
  std::seed_seq mixed{seed_of_run(), static_cast<unsigned>(std::hash<std::string_view>{}(name)), asked++};
  unsigned seed = 0;
  mixed.generate(&seed, &seed + 1);
  return seed;
}
