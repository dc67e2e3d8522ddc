#include "resume.hpp"

#include <cmath>
#include <system_error>

#include "program.hpp"

namespace gpt {
namespace {

// What must be the same for a run to be resumed; with another value it would be another run.
gr::run_metadata identity_of(const options& o, const data_identity& data) {
  gr::run_metadata metadata;
  for (const auto& [name, size] : named_sizes()) metadata.set(name, size);
  metadata.set("batch", batch_size);
  metadata.set("precision", std::string_view(precision_name));
  metadata.set("optimizer", std::string_view(optimizer_name));
  metadata.set("accumulate", o.accumulate);
  metadata.set("seed", o.seed);
  metadata.set("order", std::string_view(o.order));
  metadata.set("data", std::to_string(data.training_tokens)
                           .append(" + ")
                           .append(std::to_string(data.validation_tokens))
                           .append(" tokens, FNV-1a ")
                           .append(std::to_string(data.fingerprint)));
  return metadata;
}

// Throws unless the metadata are those of a run that can have been.
run_position position_in(const gr::run_metadata& metadata) {
  const auto amount = [&](const char* name, double least) {
    const auto value = metadata.number<double>(name);
    if (!std::isfinite(value) || value < least)
      throw gr::error("its '" + std::string(name) + "' is '" + metadata.text(name) + "', which cannot be");
    return value;
  };
  run_position at;
  at.step = metadata.number<std::uint32_t>("step");
  at.tokens = amount("tokens", 0);
  at.training_seconds = amount("training_seconds", 0);
  at.elapsed = amount("elapsed", 0);
  at.best_validation = metadata.number<double>("best_validation");  // infinite until there is one
  at.loss_scale = amount("loss_scale", std::numeric_limits<float>::min());
  at.clean_steps = static_cast<int>(amount("clean_steps", 0));
  if (metadata.all().contains("next_lr")) at.next_rate = amount("next_lr", 0);  // earlier versions did not say
  if (metadata.number<std::uint32_t>("optimizer.steps") > at.step)
    throw gr::error("its optimizer has taken more steps than the run");
  return at;
}

std::string joined(const std::string& a, const std::string& b) { return a.empty() ? b : a + "; " + b; }

// What a run that cannot be resumed is still good for.
std::string rest_of(const std::filesystem::path& folder) {
  std::error_code problem;
  for (const char* model : {"model.safetensors", "best.safetensors"})
    if (std::filesystem::exists(folder / model, problem))
      return "its " + std::string(model) + " can still be used: scripts/sample.sh " + folder.string();
  return "start a new run with --out";
}

// The newest good one from a number of saves on; `damage` is that of newer ones.
found_checkpoint find_from(std::size_t from, std::string damage, const options& o, const data_identity& data) {
  const std::filesystem::path folder = o.resume;
  std::error_code problem;
  if (!std::filesystem::is_directory(folder, problem)) throw gr::error("--resume: " + o.resume + ": no such folder");
  for (std::size_t age = from; age < gr::most_checkpoints; ++age) {
    const std::filesystem::path path = gr::checkpoint_path(folder, age);
    if (!std::filesystem::exists(path, problem)) continue;
    gr::run_metadata metadata;
    found_checkpoint found{.path = path, .age = age, .at = {}, .damage = damage};
    const gr::run_metadata expected = identity_of(o, data);
    try {
      metadata = gr::read_metadata(path);
      for (const auto& [name, value] : expected.all()) metadata.text(name);
      found.at = position_in(metadata);
      gr::safetensors_file(path).check_checksum();
    } catch (const gr::error& e) {
      const std::string what = e.what();
      damage = joined(
          damage, what.starts_with(path.string()) ? what : path.string() + ": is not a checkpoint of a run: " + what);
      continue;
    }
    for (const auto& [name, value] : expected.all())
      if (const std::string& was = metadata.text(name); was != value)
        throw gr::error(path.string() + ": its " + name + " is " + was + ", and this run's is " + value +
                        "; resume it with the same value, or start a new run with --out");
    const auto taken = [&](const char* flag, const std::string& amount) {
      return bad_flag(std::string(flag) + ": the run in " + o.resume + " has taken " + amount +
                      " already; give more than that to resume it");
    };
    if (o.steps > 0 && found.at.step >= o.steps) throw taken("--steps", std::to_string(found.at.step) + " steps");
    if (o.minutes > 0 && found.at.elapsed >= 60 * o.minutes)
      throw taken("--minutes", std::to_string(found.at.elapsed / 60) + " minutes");
    return found;
  }
  if (damage.empty()) throw gr::error("--resume: " + o.resume + ": has no checkpoint");
  throw gr::error(damage + "; no checkpoint is left to resume from; " + rest_of(folder));
}

}  // namespace

gr::run_metadata metadata_of(const options& o, const data_identity& data, const run_position& at) {
  gr::run_metadata metadata = identity_of(o, data);
  metadata.set("model", std::string_view("gradus gpt"));
  metadata.set("step", at.step);
  metadata.set("tokens", at.tokens);
  metadata.set("training_seconds", at.training_seconds);
  metadata.set("elapsed", at.elapsed);
  metadata.set("best_validation", at.best_validation);
  metadata.set("loss_scale", at.loss_scale);
  metadata.set("clean_steps", at.clean_steps);
  metadata.set("next_lr", o.rate(at.step, o.fraction(at.step, at.elapsed)));
  return metadata;
}

std::string found_checkpoint::warning() const {
  if (damage.empty()) return "";
  return damage + "; resuming from " + path.filename().string() + ", step " + std::to_string(at.step);
}

found_checkpoint find_checkpoint(const options& o, const data_identity& data) {
  if (o.resume.empty()) return {};
  return find_from(0, "", o, data);
}

found_checkpoint find_checkpoint_behind(const found_checkpoint& newer, const std::string& damage, const options& o,
                                        const data_identity& data) {
  return find_from(newer.age + 1, joined(newer.damage, damage), o, data);
}

}  // namespace gpt
