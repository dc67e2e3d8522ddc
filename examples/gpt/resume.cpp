#include "resume.hpp"

#include <cerrno>
#include <cmath>
#include <system_error>

#if defined(__unix__) || defined(__APPLE__)
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>
#endif

#include "program.hpp"

namespace gpt {
namespace {

// What must be the same for a run to go on; with another value it would be another run.
gr::run_facts identity_of(const options& o, const text_identity& text) {
  gr::run_facts facts;
  for (const auto& [name, size] : named_sizes()) facts.set(name, size);
  facts.set("batch", batch_size);
  facts.set("precision", std::string_view(precision_name));
  facts.set("optimizer", std::string_view(optimizer_name));
  facts.set("accumulate", o.accumulate);
  facts.set("seed", o.seed);
  facts.set("text", std::to_string(text.bytes).append(" bytes, FNV-1a ").append(std::to_string(text.hash)));
  return facts;
}

// Throws unless the facts are those of a run that can have been.
run_position position_in(const gr::run_facts& facts) {
  const auto amount = [&](const char* name, double least) {
    const auto value = facts.number<double>(name);
    if (!std::isfinite(value) || value < least)
      throw gr::error("its '" + std::string(name) + "' is '" + facts.text(name) + "', which cannot be");
    return value;
  };
  run_position at;
  at.step = facts.number<std::uint32_t>("step");
  at.tokens = amount("tokens", 0);
  at.training_seconds = amount("training_seconds", 0);
  at.elapsed = amount("elapsed", 0);
  at.best_validation = facts.number<double>("best_validation");  // infinite until there is one
  at.loss_scale = amount("loss_scale", std::numeric_limits<float>::min());
  at.clean_steps = static_cast<int>(amount("clean_steps", 0));
  if (facts.number<std::uint32_t>("optimizer.steps") > at.step)
    throw gr::error("its optimizer has taken more steps than the run");
  return at;
}

}  // namespace

text_identity::text_identity(std::span<const gr::byte_tokenizer::token> text)
    : bytes(text.size()), hash(14695981039346656037u) {
  for (const auto byte : text) hash = (hash ^ byte) * 1099511628211u;
}

#if defined(__unix__) || defined(__APPLE__)
run_lock::run_lock(const std::filesystem::path& folder) {
  if (folder.empty()) return;
  file_ = open(folder.c_str(), O_RDONLY | O_CLOEXEC);
  if (file_ < 0 || flock(file_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  close(file_);
  throw gr::error(folder.string() + ": this run is going on in another process; end that one first");
}
run_lock::~run_lock() {
  if (file_ >= 0) close(file_);
}
#else
run_lock::run_lock(const std::filesystem::path&) {}
run_lock::~run_lock() = default;
#endif

gr::run_facts facts_of(const options& o, const text_identity& text, const run_position& at) {
  gr::run_facts facts = identity_of(o, text);
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

found_checkpoint find_checkpoint(const options& o, const text_identity& text, const std::string& damage_of_last) {
  if (o.resume.empty()) return {};
  const std::filesystem::path folder = o.resume;
  std::error_code problem;
  if (!std::filesystem::is_directory(folder, problem)) throw gr::error("--resume: " + o.resume + ": no such folder");
  std::string damage = damage_of_last;
  for (const auto& path : {checkpoint_path(folder), previous_checkpoint_path(folder)}) {
    if (!std::filesystem::exists(path, problem)) continue;
    if (!damage_of_last.empty() && path == checkpoint_path(folder)) continue;
    gr::run_facts facts;
    found_checkpoint found{.path = path, .at = {}, .warning = ""};
    const gr::run_facts expected = identity_of(o, text);
    try {
      facts = gr::read_facts(path);
      for (const auto& [name, value] : expected.all()) facts.text(name);
      found.at = position_in(facts);
    } catch (const gr::error& e) {
      const std::string what = e.what();
      damage += (damage.empty() ? "" : "; ") +
                (what.starts_with(path.string()) ? what : path.string() + ": is no checkpoint of a run: " + what);
      continue;
    }
    for (const auto& [name, value] : expected.all())
      if (const std::string& was = facts.text(name); was != value)
        throw gr::error(path.string() + ": its " + name + " is " + was + ", and this run's is " + value +
                        "; go on with what it was, or begin a new run with --out");
    const auto taken = [&](const char* flag, const std::string& amount) {
      return bad_flag(std::string(flag) + ": the run in " + o.resume + " has taken " + amount +
                      " already; give more than that to go on");
    };
    if (o.steps > 0 && found.at.step >= o.steps) throw taken("--steps", std::to_string(found.at.step) + " steps");
    if (o.minutes > 0 && found.at.elapsed >= 60 * o.minutes)
      throw taken("--minutes", std::to_string(found.at.elapsed / 60) + " minutes");
    if (!damage.empty())
      found.warning =
          damage + "; going on from " + path.filename().string() + ", step " + std::to_string(found.at.step);
    return found;
  }
  throw gr::error(damage.empty() ? "--resume: " + o.resume + ": holds no checkpoint" : damage);
}

void set_damaged_aside(const found_checkpoint& found) {
  if (found.warning.empty() || found.path.filename() != "checkpoint-previous.safetensors") return;
  const auto folder = found.path.parent_path();
  std::error_code problem;  // that it cannot be moved is no reason not to go on
  std::filesystem::rename(checkpoint_path(folder), folder / "checkpoint-damaged.safetensors", problem);
  if (!problem) std::filesystem::rename(found.path, checkpoint_path(folder), problem);
}

}  // namespace gpt
