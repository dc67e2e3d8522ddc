#include "reports.hpp"

#include <algorithm>
#include <ctime>
#include <vector>

#include <gradus/core/version.hpp>
#include <gradus/io/atomic_file.hpp>
#include <gradus/io/text_file.hpp>
#include <gradus/report/progress.hpp>
#include <gradus/tokenizer/text_settings_json.hpp>
#include <gradus/tokenizer/tokenizer_json.hpp>

#include "model_file.hpp"
#include "size_hints.hpp"

namespace gpt {
namespace {

std::size_t parameters() { return gr::parameter_count(network()); }

/// Floating-point operations of training on one token: 6 a parameter that it uses (2 forward, 4 backward; 4 in all if
/// it is frozen), and 12 * layers * width * context for attention's two products (Chowdhery et al. 2022, appendix B).
/// Preferences have one forward more, of the reference.
double training_flops_per_token() {
  constexpr double of_parameters = (adapter_rank > 0 ? 4 : 6) + (preferences ? 2 : 0);
  constexpr double of_attention = preferences ? 16 : 12;
  return of_parameters * static_cast<double>(parameters() - unused_parameters(sizes)) +
         of_attention * static_cast<double>(sizes.layers * sizes.width * sizes.context);
}

void write_config(const std::filesystem::path& folder, const options& o) {
  const std::time_t now = std::time(nullptr);
  char date[32];
  std::strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S", std::localtime(&now));
  std::string text = "# Written by gpt_train of gradus ";
  text += std::string(gr::version()) + ", " + date + ". To repeat the run: scripts/train.sh --config FILE\n";
  gr::write_file_atomically(folder / "config", text + gr::config_text(o.config));
}

std::vector<gr::log_field> start_of_log(const options& o, const chosen_memory& memory, double machine_flops,
                                        const std::string& machine) {
  std::vector<gr::log_field> fields{{"model", sizes.name()}};
  for (const auto& [name, size] : sizes.named()) fields.emplace_back(name, size);
  const std::vector<gr::log_field> others{
      {"precision", precision_name},
      {"optimizer", optimizer_name},
      {"schedule", o.schedule},
      {"batch", batch_size},
      {"parameters", parameters()},
      {"accumulate", o.accumulate},
      {"ranks", o.ranks},
      {"leaves", o.leaves},
      {"shard", o.shard},
      {"lr", o.lr},
      {"seed", o.seed},
      {"device", device_name},
      {"machine", machine},
      {"checkpoint", o.memory_budget.empty() ? o.checkpoint : "budget " + o.memory_budget},
      {"planned_mib", mib(memory.total_bytes())},
      {"gemm_tflops", machine_flops / 1e12}};
  fields.insert(fields.end(), others.begin(), others.end());
  return fields;
}

}  // namespace

gr::run_options run_of(const options& o, const run_data& data, const chosen_memory& plan, double machine_flops,
                       const gr::text_settings& said) {
  gr::run_options run;
  run.names = {.program = "gpt_train",
               .title = std::string("Training a ") + sizes.title(),
               .machine_flops = machine_flops,
               .loss = preferences    ? "a pair"
                       : data.bytes() ? "nats a byte"
                                      : "nats a token",
               .best = o.save ? "best.safetensors" : ""};
  run.out = o.out;
  run.resume = o.resume;
  run.steps = o.steps;
  run.minutes = o.minutes;
  run.rate = [&o](long long step, double fraction) { return o.rate(step, fraction); };
  run.units_per_step = data.positions_a_batch() * o.accumulate;
  run.flops_per_unit = training_flops_per_token();
  run.late_losses = on_gpu;
  run.eval_every = o.eval_every;
  run.early_stop = o.early_stop;
  run.save = o.save;
  run.save_seconds = o.save_seconds;
  run.save_steps = o.save_steps;
  run.save_retry = o.save_retry;
  run.keep_checkpoints = o.keep_checkpoints;
  run.model = "model.safetensors";
  run.settings = "config";
  run.write_settings = [&o, &data, &plan, said,
                        new_run = o.resume.empty()](const std::filesystem::path& folder) mutable {
    if (std::exchange(new_run, false)) write_report(o.memory_report, plan, nullptr);
    write_config(folder, o);
    if (data.tokenizer() != nullptr) gr::write_tokenizer_json(folder / "tokenizer.json", *data.tokenizer());
    gr::write_text_settings(folder, said);
  };
  run.use_command = "scripts/sample.sh";
  run.tensorboard = o.tensorboard;
  run.implied = {{"leaves", "1"}};  // runs of earlier versions had one
  return run;
}

void report_start(gr::run& run, const options& o, const chosen_memory& plan, const run_data& data,
                  const std::string& machine, const std::string& note, const std::string& starting_from) {
  const double machine_flops = run.options().names.machine_flops;
  if (!run.resumed()) run.log(start_of_log(o, plan, machine_flops, machine));
  const auto millions = [](std::size_t n) { return static_cast<double>(n) / 1e6; };
  run.line(line("%s, %.2fM parameters", describe_model().c_str(), millions(parameters())) +
           (o.lora > 0 ? line(", and %.2fM in adapters of rank %d, which are trained%s",
                              millions(trained_parameters(step_of(o))), o.lora,
                              o.base == "int8" ? ", on a base in 8 bits" : "")
                       : ""));
  const auto batches = static_cast<std::size_t>(o.accumulate),
             tokens = (preferences ? 2 : 1) * batch_size * batches * sizes.context;
  const std::string times = batches > 1 ? " x " + std::to_string(batches) : "";
  run.line(line("batch %zu%s: %s%zu tokens an update; ", std::size_t{batch_size}, times.c_str(),
                packed ? "at most " : "", tokens) +
           data.size_text());
  for (const std::string& of_file : data.notes()) run.line(of_file);
  if (o.batch_tokens > 0 && o.batch_tokens != tokens)
    run.line("--batch-tokens " + std::to_string(o.batch_tokens) + ": the nearest is " + std::to_string(tokens) + ", " +
             counted(batches, "batch", "batches") + " of " + std::to_string(batch_size) + " x " +
             std::to_string(sizes.context));
  run.line(line("memory planned: %.0f MiB persistent, %.0f MiB for steps (%.0f MiB kept for backward)",
                mib(plan.plan.persistent_bytes), mib(plan.workspace_bytes), mib(plan.plan.saved_bytes)));
  if (plan.file_bytes > 0) run.line(offload_line(plan));
  run.line(line("machine: %s, %.3f TFLOP/s in the model's matrix products", machine.c_str(), machine_flops / 1e12));
  if (!note.empty()) run.line(note);
  run.line("run folder " + run.folder().string());
  constexpr gr::index_t head = sizes.width / sizes.heads;
  const std::string heads = std::to_string(gpt::rounded_up(head, 16));
  const std::string wider = std::to_string(gpt::rounded_up(head, 16) * sizes.heads);
  for (const std::string& hint :
       {gpt::size_hint("attention with a head width", head, 16, "--width " + wider + " has heads " + heads + " wide"),
        gpt::size_hint("a vocabulary", sizes.vocabulary, 64,
                       "a tokenizer of " + std::to_string(gpt::rounded_up(sizes.vocabulary, 64)) + " tokens is free")})
    if (!hint.empty()) run.line(hint);
  if (!starting_from.empty()) run.line(starting_from);
}

void report_end(gr::run& run, const chosen_memory& plan, const run_data& data, double peak_mib) {
  const double loss = run.state.validation;
  const double bytes_a_token = data.bytes_a_token(run.over() ? last_validation : a_validation);
  const std::string nats = preferences          ? line("%.4f a pair", loss)
                           : bytes_a_token == 1 ? line("%.4f nats a byte", loss)
                           : bytes_a_token == 0 ? line("%.4f nats a token", loss)
                                                : line("%.4f nats a token, %.4f a byte", loss, loss / bytes_a_token);
  run.line(line("validation loss %s after %lld steps", nats.c_str(), run.state.step));
  run.line(line("memory: %.0f MiB planned, the %s peak %.0f MiB", mib(plan.total_bytes()),
                on_gpu ? "GPU's" : "process's", peak_mib));
}

void report_profile(gr::run& run, const gr::profiler& profile, const gr::machine_rates& rates) {
  run.line(gr::profile_table(profile, rates, gr::output_columns()));
  run.attempt([&] { gr::write_file_atomically(run.folder() / "profile.txt", gr::profile_table(profile, rates)); });
}

}  // namespace gpt
