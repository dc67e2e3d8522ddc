#include "run_state.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <vector>

#include <gradus/io/atomic_file.hpp>
#include <gradus/run/program.hpp>

#include "model_file.hpp"
#include "size_hints.hpp"

namespace gpt {
namespace {

// What must be the same for a run to be resumed.
gr::run_metadata identity_of(const options& o, const run_data& data) {
  gr::run_metadata metadata;
  metadata.set("model", model_mark());
  for (const auto& [name, size] : sizes.named()) metadata.set(name, size);
  metadata.set("batch", batch_size);
  metadata.set("precision", std::string_view(precision_name));
  metadata.set("optimizer", std::string_view(optimizer_name));
  metadata.set("accumulate", o.accumulate);
  metadata.set("leaves", o.leaves);
  metadata.set("seed", o.seed);
  metadata.set("order", std::string_view(o.order));
  metadata.set("data", std::string_view(data.identity));
  return metadata;
}

// Throws gr::error for metadata that no run can have written.
run_state state_in(const gr::run_metadata& metadata) {
  const auto amount = [&](const char* name, double least) {
    const auto value = metadata.number<double>(name);
    if (!std::isfinite(value) || value < least)
      throw gr::error("its '" + std::string(name) + "' is '" + metadata.text(name) + "', which cannot be");
    return value;
  };
  run_state state;
  state.step = metadata.number<std::uint32_t>("step");
  state.tokens = amount("tokens", 0);
  state.training_seconds = amount("training_seconds", 0);
  state.elapsed = amount("elapsed", 0);
  state.best_validation = metadata.number<double>("best_validation");  // infinite until there is one
  state.loss_scale = amount("loss_scale", std::numeric_limits<float>::min());
  state.clean_steps = static_cast<int>(amount("clean_steps", 0));
  if (metadata.all().contains("next_lr")) state.planned_rate = amount("next_lr", 0);  // not in earlier versions
  if (metadata.number<std::uint32_t>("optimizer.steps") > state.step)
    throw gr::error("its optimizer has taken more steps than the run");
  return state;
}

}  // namespace

gr::config_entries shared_settings(const options& o, const run_data& data) {
  gr::config_entries all;
  const gr::run_metadata identity = identity_of(o, data);
  for (const auto& [name, value] : identity.all()) all.emplace_back(name, value);
  // Where its files are, and what it may use, is a rank's own.
  for (const auto& entry : o.config)
    if (std::ranges::none_of(std::array{"data", "validation-data", "tokenizer", "init", "memory-report",
                                        "tune-products", "threads", "workers"},
                             [&](const char* name) { return entry.first == name; }))
      all.push_back(entry);
  return all;
}

namespace {

std::string joined(const std::string& a, const std::string& b) { return a.empty() ? b : a + "; " + b; }

// What a run without a checkpoint is still good for.
std::string advice_for(const std::filesystem::path& folder) {
  std::error_code problem;
  for (const char* model : {"model.safetensors", "best.safetensors"})
    if (std::filesystem::exists(folder / model, problem))
      return "its " + std::string(model) + " can still be used: scripts/sample.sh " + folder.string();
  return "start a new run with --out";
}

// Runs of earlier versions had one leaf.
std::string value_in(const gr::run_metadata& found, const std::string& name) {
  return name == "leaves" && !found.all().contains(name) ? "1" : found.text(name);
}

void check_is_same_run(const gr::run_metadata& found, const gr::run_metadata& expected, const std::string& path) {
  for (const auto& [name, value] : expected.all())
    if (const std::string was = value_in(found, name); was != value)
      throw gr::error(path + ": its " + name + " is " + was + ", and this run's is " + value +
                      "; resume it with the same value, or start a new run with --out");
}

// Whether the model of this checkpoint, or of a later one, was written: a run may have ended between the two.
bool has_model_of(const std::filesystem::path& checkpoint) {
  std::error_code problem;
  const std::filesystem::path model = checkpoint.parent_path() / "model.safetensors";
  const auto written = std::filesystem::last_write_time(model, problem);
  return !problem && written >= std::filesystem::last_write_time(checkpoint, problem);
}

void check_is_not_over(const run_state& state, const options& o) {
  const auto check = [&](bool over, const char* flag, const std::string& amount) {
    if (over)
      throw gr::bad_flag(std::string(flag) + ": the run in " + o.resume + " has taken " + amount +
                         " already; give more than that to resume it");
  };
  check(o.steps > 0 && state.step >= o.steps, "--steps", std::to_string(state.step) + " steps");
  check(o.minutes > 0 && state.elapsed >= 60 * o.minutes, "--minutes", std::to_string(state.elapsed / 60) + " minutes");
}

// The newest good checkpoint from `from.age` on.
void find_from(found_checkpoint& from, const options& o, const run_data& data) {
  const std::filesystem::path folder = o.resume;
  const gr::run_metadata expected = identity_of(o, data);
  std::error_code problem;
  for (; from.age < gr::most_checkpoints; ++from.age) {
    from.path = gr::checkpoint_path(folder, from.age);
    if (!std::filesystem::exists(from.path, problem)) continue;
    gr::run_metadata metadata;
    try {
      metadata = gr::read_metadata(from.path);
      for (const auto& [name, value] : expected.all()) value_in(metadata, name);
      from.state = state_in(metadata);
      gr::safetensors_file(from.path).check_checksum();
    } catch (const gr::error& e) {
      const std::string what = e.what(), path = from.path.string();
      from.damage =
          joined(from.damage, what.starts_with(path) ? what : path + ": is not a checkpoint of a run: " + what);
      continue;
    }
    check_is_same_run(metadata, expected, from.path.string());
    if (has_model_of(from.path)) check_is_not_over(from.state, o);
    return;
  }
  if (from.damage.empty()) throw gr::error("--resume: " + o.resume + ": has no checkpoint");
  throw gr::error(from.damage + "; no checkpoint is left to resume from; " + advice_for(folder));
}

}  // namespace

double run_data::bytes_a_token(std::size_t tokens) const {
  if (files.bytes()) return 1;
  if (files.tokenizer() == nullptr) return 0;
  const std::size_t batches = validation_batches(tokens);
  std::size_t bytes = 0;
  for (std::size_t part = 0; part < batches; ++part)
    for (const token t : validation.spread_batch<batch_size>(part, batches).targets)
      bytes += files.tokenizer()->bytes_of(static_cast<gr::bpe_tokenizer::token>(t)).size();
  return static_cast<double>(bytes) / static_cast<double>(batches * batch_tokens);
}

found_checkpoint find_checkpoint(const options& o, const run_data& data) {
  found_checkpoint from;
  if (o.resume.empty()) return from;
  from.lock = std::make_unique<gr::run_lock>(o.resume);
  std::error_code problem;
  if (!std::filesystem::is_directory(o.resume, problem)) throw gr::error("--resume: " + o.resume + ": no such folder");
  find_from(from, o, data);
  return from;
}

run_state state_of_checkpoint(const std::filesystem::path& path) { return state_in(gr::read_metadata(path)); }

void find_older_checkpoint(found_checkpoint& from, const std::string& damage, const options& o, const run_data& data) {
  from.damage = joined(from.damage, damage);
  ++from.age;
  find_from(from, o, data);
}

gr::run_metadata metadata_of(const options& o, const run_data& data, const run_state& state) {
  gr::run_metadata metadata = identity_of(o, data);
  metadata.set("step", state.step);
  metadata.set("tokens", state.tokens);
  metadata.set("training_seconds", state.training_seconds);
  metadata.set("elapsed", state.elapsed);
  metadata.set("best_validation", state.best_validation);
  metadata.set("loss_scale", state.loss_scale);
  metadata.set("clean_steps", state.clean_steps);
  metadata.set("next_lr", o.rate(state.step, o.fraction(state.step, state.elapsed)));
  return metadata;
}

void check_finite(const char* what, double loss, long long step) {
  if (!std::isfinite(loss))
    throw diverged(std::string("the ") + what + " is no longer finite at step " + std::to_string(step) +
                   "; try a lower --lr");
}

void write_config(const std::filesystem::path& folder, const options& o) {
  const std::time_t now = std::time(nullptr);
  char date[32];
  std::strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S", std::localtime(&now));
  std::string text = "# Written by gpt_train of gradus ";
  text += std::to_string(GRADUS_VERSION_MAJOR) + "." + std::to_string(GRADUS_VERSION_MINOR) + "." +
          std::to_string(GRADUS_VERSION_PATCH) + ", " + date + ". To repeat the run: scripts/train.sh --config FILE\n";
  gr::write_file_atomically(folder / "config", text + gr::config_text(o.config));
}

namespace {
std::vector<gr::log_field> start_of_log(const options& o, const chosen_memory& memory, const run_facts& facts) {
  std::vector<gr::log_field> fields{{"model", sizes.name}};
  for (const auto& [name, size] : sizes.named()) fields.emplace_back(name, size);
  const std::vector<gr::log_field> others{
      {"precision", precision_name},
      {"optimizer", optimizer_name},
      {"schedule", o.schedule},
      {"batch", batch_size},
      {"parameters", facts.parameters},
      {"accumulate", o.accumulate},
      {"ranks", o.ranks},
      {"leaves", o.leaves},
      {"shard", o.shard},
      {"lr", o.lr},
      {"seed", o.seed},
      {"device", device_name},
      {"machine", facts.machine},
      {"checkpoint", o.memory_budget.empty() ? o.checkpoint : "budget " + o.memory_budget},
      {"planned_mib", mib(memory.total_bytes())},
      {"gemm_tflops", facts.machine_flops / 1e12}};
  fields.insert(fields.end(), others.begin(), others.end());
  return fields;
}
}  // namespace

void report_start(gr::run_reporter& report, const std::filesystem::path& folder, const options& o,
                  const chosen_memory& memory, const run_data& data, const run_facts& facts, const run_state& state) {
  if (!facts.resumed) report.log(start_of_log(o, memory, facts));
  report.line(line("%s, %.2fM parameters", describe_model().c_str(), static_cast<double>(facts.parameters) / 1e6));
  const auto batches = static_cast<std::size_t>(o.accumulate), tokens = batch_size * batches * sizes.context;
  const std::string times = batches > 1 ? " x " + std::to_string(batches) : "";
  report.line(line("batch %zu%s: %zu tokens an update; %.2f%s", std::size_t{batch_size}, times.c_str(), tokens,
                   static_cast<double>(data.files.tokens()) / 1e6, data.files.bytes() ? " MB of text" : "M tokens"));
  if (o.batch_tokens > 0 && o.batch_tokens != tokens)
    report.line("--batch-tokens " + std::to_string(o.batch_tokens) + ": the nearest is " + std::to_string(tokens) +
                ", " + counted(batches, "batch", "batches") + " of " + std::to_string(batch_size) + " x " +
                std::to_string(sizes.context));
  report.line(line("memory planned: %.0f MiB persistent, %.0f MiB for steps (%.0f MiB kept for backward)",
                   mib(memory.plan.persistent_bytes), mib(memory.workspace_bytes), mib(memory.plan.saved_bytes)));
  report.line(line("machine: %s, %.3f TFLOP/s in the model's matrix products", facts.machine.c_str(),
                   facts.machine_flops / 1e12));
  if (!facts.note.empty()) report.line(facts.note);
  report.line("run folder " + folder.string());
  constexpr gr::index_t head = sizes.width / sizes.heads;
  const std::string heads = std::to_string(gpt::rounded_up(head, 16));
  const std::string wider = std::to_string(gpt::rounded_up(head, 16) * sizes.heads);
  for (const std::string& hint :
       {gpt::size_hint("attention with a head width", head, 16, "--width " + wider + " has heads " + heads + " wide"),
        gpt::size_hint("a vocabulary", sizes.vocabulary, 64,
                       "a tokenizer of " + std::to_string(gpt::rounded_up(sizes.vocabulary, 64)) + " tokens is free")})
    if (!hint.empty()) report.line(hint);
  if (!facts.starting_from.empty()) report.line(facts.starting_from);
  if (!facts.resumed) return;
  report.line("resumed after step " + std::to_string(state.step));
  const double rate = o.rate(state.step, o.fraction(state.step, state.elapsed)), planned = state.planned_rate;
  if (planned > 0 && std::abs(rate - planned) > 1e-6 * planned)
    report.line(
        line("the learning rate jumps from %.2e to %.2e: it follows --steps, --minutes, --lr, --schedule and "
             "--warmup, which are not those that the run had",
             planned, rate));
}

void report_load(const std::vector<std::vector<double>>& load, gr::step_report& step) {
  double least = 1, most = 0;
  for (const auto& block : load)
    for (const double share : block) least = std::min(least, share), most = std::max(most, share);
  const auto experts = static_cast<double>(load.front().size());
  step.fields.emplace_back("expert_load", load);
  step.note = line("experts: the load of one is %.2f to %.2f times the mean", least * experts, most * experts);
}

void report_end(gr::run_reporter& report, const chosen_memory& memory, const run_state& state, double bytes_a_token,
                double peak_mib) {
  const double loss = state.validation;
  const std::string nats = bytes_a_token == 1   ? line("%.4f nats a byte", loss)
                           : bytes_a_token == 0 ? line("%.4f nats a token", loss)
                                                : line("%.4f nats a token, %.4f a byte", loss, loss / bytes_a_token);
  report.line(line("validation loss %s after %lld steps", nats.c_str(), state.step));
  report.line(line("memory: %.0f MiB planned, the %s peak %.0f MiB", mib(memory.total_bytes()),
                   on_gpu ? "GPU's" : "process's", peak_mib));
}

}  // namespace gpt
