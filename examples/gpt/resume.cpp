#include "resume.hpp"

#include <utility>
#include <vector>

#include "program.hpp"

namespace gpt {
namespace {

// What must be the same for a run to go on, by the flags' names; another value would make it another run.
gr::run_facts identity_of(const options& o, std::size_t text_bytes) {
  gr::run_facts facts;
  for (const auto& [name, size] : named_sizes()) facts.set(name, size);
  facts.set("batch", batch_size);
  facts.set("precision", std::string_view(precision_name));
  facts.set("optimizer", std::string_view(optimizer_name));
  facts.set("accumulate", o.accumulate);
  facts.set("seed", o.seed);
  facts.set("text_bytes", text_bytes);
  return facts;
}

run_position position_in(const gr::run_facts& facts) {
  return {.step = facts.number<long long>("step"),
          .tokens = facts.number<double>("tokens"),
          .training_seconds = facts.number<double>("training_seconds"),
          .elapsed = facts.number<double>("elapsed"),
          .best_validation = facts.number<double>("best_validation"),
          .loss_scale = facts.number<double>("loss_scale"),
          .clean_steps = facts.number<int>("clean_steps")};
}

}  // namespace

gr::run_facts facts_of(const options& o, std::size_t text_bytes, const run_position& at) {
  gr::run_facts facts = identity_of(o, text_bytes);
  facts.set("model", std::string_view("gradus gpt"));
  facts.set("step", at.step);
  facts.set("tokens", at.tokens);
  facts.set("training_seconds", at.training_seconds);
  facts.set("elapsed", at.elapsed);
  facts.set("best_validation", at.best_validation);
  facts.set("loss_scale", at.loss_scale);
  facts.set("clean_steps", at.clean_steps);
  return facts;
}

found_checkpoint find_checkpoint(const options& o, std::size_t text_bytes) {
  if (o.resume.empty()) return {};
  const std::filesystem::path folder = o.resume;
  std::error_code problem;
  if (!std::filesystem::is_directory(folder, problem)) throw gr::error("--resume: " + o.resume + ": no such folder");
  std::string damage;
  for (const auto& path : {checkpoint_path(folder), previous_checkpoint_path(folder)}) {
    if (!std::filesystem::exists(path, problem)) continue;
    gr::run_facts facts;
    found_checkpoint found{.path = path, .at = {}, .warning = damage};
    try {
      facts = gr::read_facts(path);
      found.at = position_in(facts);
    } catch (const gr::error& e) {
      damage = e.what();
      continue;
    }
    const gr::run_facts expected = identity_of(o, text_bytes);
    for (const auto& [name, value] : expected.all())
      if (const std::string& was = facts.text(name); was != value)
        throw gr::error(path.string() + ": its " + name + " is " + was + ", and this run's is " + value +
                        "; go on with what it was, or begin a new run with --out");
    if (o.steps > 0 && found.at.step >= o.steps)
      throw bad_flag("--steps: the run in " + o.resume + " has taken " + std::to_string(found.at.step) +
                     " steps already; give more than that to go on");
    if (!damage.empty())
      found.warning =
          damage + "; going on from " + path.filename().string() + ", step " + std::to_string(found.at.step);
    return found;
  }
  throw gr::error(damage.empty() ? "--resume: " + o.resume + ": holds no checkpoint" : damage);
}

}  // namespace gpt
