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
  if (metadata.number<std::uint32_t>("optimizer.steps") > at.step)
    throw gr::error("its optimizer has taken more steps than the run");
  return at;
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
  return metadata;
}

found_checkpoint find_checkpoint(const options& o, const data_identity& data, const std::string& damage_of_last) {
  if (o.resume.empty()) return {};
  const std::filesystem::path folder = o.resume;
  std::error_code problem;
  if (!std::filesystem::is_directory(folder, problem)) throw gr::error("--resume: " + o.resume + ": no such folder");
  std::string damage = damage_of_last;
  for (const auto& path : {gr::checkpoint_path(folder), gr::previous_checkpoint_path(folder)}) {
    if (!std::filesystem::exists(path, problem)) continue;
    if (!damage_of_last.empty() && path == gr::checkpoint_path(folder)) continue;
    gr::run_metadata metadata;
    found_checkpoint found{.path = path, .at = {}, .warning = ""};
    const gr::run_metadata expected = identity_of(o, data);
    try {
      metadata = gr::read_metadata(path);
      for (const auto& [name, value] : expected.all()) metadata.text(name);
      found.at = position_in(metadata);
      gr::safetensors_file(path).check_checksum();
    } catch (const gr::error& e) {
      const std::string what = e.what();
      damage += (damage.empty() ? "" : "; ") +
                (what.starts_with(path.string()) ? what : path.string() + ": is not a checkpoint of a run: " + what);
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
    if (!damage.empty())
      found.warning =
          damage + "; resuming from " + path.filename().string() + ", step " + std::to_string(found.at.step);
    return found;
  }
  throw gr::error(damage.empty() ? "--resume: " + o.resume + ": has no checkpoint" : damage);
}

}  // namespace gpt
