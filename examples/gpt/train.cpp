// Trains a GPT on text, as bytes or as tokens. Read train() from top to bottom; the model is in model.hpp, its sizes in
// config.hpp.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <system_error>

#include <gradus/data/prefetch.hpp>
#include <gradus/train/anomaly.hpp>
#include <gradus/train/profile.hpp>
#include <gradus/train/run_folder.hpp>
#include <gradus/train/run_saver.hpp>

#include "closing_sample.hpp"
#include "interrupt.hpp"
#include "late_report.hpp"
#include "memory.hpp"
#include "model_file.hpp"
#include "options.hpp"
#include "program.hpp"
#include "report.hpp"
#include "resume.hpp"
#include "run_memory.hpp"
#include "speed.hpp"
#include "starting_model.hpp"
#include "step_runner.hpp"
#include "validation.hpp"

namespace {

namespace gr = gradus;
using gpt::trainer, gpt::windows;

/// Reads the checkpoint that was found, or one before where its tensors are damaged.
void read_checkpoint(gpt::found_checkpoint& from, const gpt::options& o, const gpt::data_identity& data,
                     gr::context<gpt::device>& ctx, trainer& t) {
  for (bool read = false; !read;) {
    try {
      gr::read_checkpoint(from.path, ctx, t.net, t.optimizer);
      read = true;
    } catch (const gr::out_of_memory&) {
      throw;  // that is not the file's fault
    } catch (const gr::error& e) { from = gpt::find_checkpoint_behind(from, e.what(), o, data); }
  }
  if (!from.damage.empty()) gr::move_damaged_checkpoint(o.resume, from.age);
  t.resume_after(static_cast<std::uint32_t>(from.at.step * o.accumulate), from.at.loss_scale, from.at.clean_steps);
}

int plan(const gpt::options& o) {
  const gpt::chosen_memory m = gpt::choose_memory(o, gpt::machine_flops(o.threads));
  gpt::print_memory(m);
  gpt::write_report(o.memory_report, m, nullptr);
  if (!o.memory_report.empty()) std::printf("wrote %s\n", o.memory_report.c_str());
  return 0;
}

int train(const gpt::options& o) {
  // The data, and where the run is resumed, if it is, or starts from.
  const gpt::starting_model start(o);
  const gr::dataset data = start.open_data();
  gpt::check_vocabulary(data.vocabulary());
  data.check_tokens(gpt::sizes.vocabulary);
  const windows learned(data.train(), gpt::sizes.vocabulary), judged(data.validation(), gpt::sizes.vocabulary);
  std::optional<gr::run_lock> alone(o.resume);
  const gpt::data_identity identity{learned.tokens(), judged.tokens(), data.fingerprint()};
  gpt::found_checkpoint from = gpt::find_checkpoint(o, identity);

  // The memory, the model, and what trains it.
  const double machine_flops = gpt::machine_flops(o.threads);
  const gpt::chosen_memory chosen = gpt::choose_memory(o, machine_flops);
  gpt::run_memory memory(o, chosen);
  gpt::step_options step_options = o.step();
  step_options.regions = chosen.regions;
  trainer t(memory.persistent, memory.transient, step_options);
  if (!from.path.empty()) read_checkpoint(from, o, identity, memory.persistent, t);
  start.load(t.net, memory.persistent);
  gpt::run_position at = from.at;

  // The run folder. The plan's picture comes first, while the folder is empty and a run that fails here can be tried
  // again.
  const gpt::interrupts stop;  // from here on there is something to lose
  const bool resumed = !from.path.empty();
  const auto folder = resumed ? std::filesystem::path(o.resume) : gr::make_run_folder(o.out);
  if (!resumed) gpt::write_report(o.memory_report, chosen, nullptr);
  gr::run_reporter report(folder,
                          {.program = "gpt_train",
                           .title = "Training a GPT",
                           .machine_flops = machine_flops,
                           .loss = data.bytes() ? "nats a byte" : "nats a token",
                           .best = o.save ? "best.safetensors" : ""},
                          at.step);
  if (!resumed) alone.emplace(folder);
  const auto write_settings = [&] {  // what sampling and resuming need besides a checkpoint
    gpt::write_config(folder, o);
    if (data.tokenizer() != nullptr) gr::write_tokenizer_json(folder / "tokenizer.json", *data.tokenizer());
  };
  if (!resumed) write_settings();
  else if (report.attempt(write_settings)) report.attempt([&] { gpt::write_report(o.memory_report, chosen, nullptr); });
  if (o.tensorboard) report.write_events(at.step);
  if (!from.damage.empty()) report.warn(from.warning());
  const std::size_t parameters = gr::parameter_count(t.net);
  gpt::report_start(report, folder, o, chosen,
                    {.parameters = parameters,
                     .tokens = data.tokens(),
                     .bytes = data.bytes(),
                     .machine = memory.machine(),
                     .note = gpt::thread_note(o.threads),
                     .machine_flops = machine_flops,
                     .resumed_after = resumed ? at.step : -1,
                     .starting_from = start.text(),
                     .planned_rate = at.next_rate,
                     .rate = o.rate(at.step, o.fraction(at.step, at.elapsed))});
  gpt::late_report told(report);

  // What saves it: the run as it goes, and at the end the model alone, for use.
  bool folder_failed = false, best_failed = false;
  std::function<void()> keep_folder = [] {};
  const auto prepare_checkpoint = [&]() -> std::function<void()> {
    keep_folder();
    at.loss_scale = t.loss_scale();
    at.clean_steps = t.clean_steps();
    return [&folder, keep = static_cast<std::size_t>(o.keep_checkpoints),
            checkpoint = gr::prepare_checkpoint(memory.persistent, t.net, t.optimizer, metadata_of(o, identity, at))] {
      checkpoint.write(gr::checkpoint_path(folder), gr::older_checkpoint_paths(folder, keep));
      gr::remove_old_checkpoints(folder, keep);
    };
  };
  const auto warn = [&](const std::string& text) { report.warn(text); };
  const auto check = [&] {
    told.record();  // the log has every step that a checkpoint has, whatever ends the run
    gpt::check_worth_saving(t.net);
  };
  const auto write_checkpoint = [&] { prepare_checkpoint()(); };
  gr::run_saver saver(check, write_checkpoint, warn, o.save_retry);
  saver.set_pace(o.save_seconds, o.save_steps);
  saver.write_in_background(prepare_checkpoint);
  const auto model_file = folder / "model.safetensors";
  const auto write_model = [&] {
    keep_folder();
    gpt::save_model(t.net, model_file);
  };
  gr::run_saver model_saver([] {}, write_model, warn, o.save_retry);
  keep_folder = [&] {  // whoever removes it gets it again, and soon a checkpoint in it
    std::error_code problem;
    if (std::filesystem::exists(folder / "config", problem)) return;
    report.attempt(folder_failed, [&] {
      const bool whole = !alone || !alone->holds(folder);  // the log alone may have made it again
      std::filesystem::create_directories(folder, problem);
      write_settings();
      if (whole) alone.emplace(folder);
      report.warn(whole ? folder.string() + ": was removed; it is made again"
                        : (folder / "config").string() + ": was removed; it is written again");
      if (!std::filesystem::exists(folder / "best.safetensors", problem))
        at.best_validation = std::numeric_limits<double>::infinity();
      saver.hurry();
    });
  };
  std::string unsaved;  // what kept the run from being written
  const auto save_at_end = [&] {
    if (o.save) unsaved = saver.save();
    if (o.save && unsaved.empty()) unsaved = model_saver.save();
  };

  const auto tell_why_it_ends = [&] {  // of what is being handled
    try {
      throw;
    } catch (const std::exception& e) {
      report.warn(std::string(e.what()) + "; the run is saved and ends");
    } catch (...) {}
  };

  // Training.
  const auto batches_a_step = static_cast<std::uint64_t>(o.accumulate);
  const auto make_batch = [&](std::uint64_t number) {
    if (o.order == "shuffled") return learned.shuffled_batch<gpt::batch_size>(o.seed, number);
    return learned.random_batch<gpt::batch_size>(o.seed, static_cast<std::uint32_t>(number / batches_a_step),
                                                 static_cast<std::uint32_t>(number % batches_a_step));
  };
  gr::prefetcher batches(make_batch, {.first = static_cast<std::uint64_t>(at.step) * batches_a_step,
                                      .workers = static_cast<std::size_t>(o.workers),
                                      .ahead = static_cast<std::size_t>(std::max(2 * o.workers, 1))});
  gr::profiler profile([&] { memory.wait(); });
  gr::anomaly_finder anomalies(!trainer::scales_loss);
  gr::observer* const watching = o.profile ? &profile : o.anomaly ? static_cast<gr::observer*>(&anomalies) : nullptr;
  gr::step_report now{.step = at.step, .loss = std::nan(""), .tokens = at.tokens};
  bool replaced = false;
  const auto validate = [&](std::size_t tokens, const std::function<bool()>& enough) {
    if (const std::string files = replaced ? "" : data.replaced_files(); !files.empty()) {
      report.warn(
          files +
          ": rewritten, replaced or removed since it was opened; the run goes on with what it began with, and can be "
          "resumed with nothing else");
      replaced = true;
    }
    memory.use(gpt::evaluation_plan);
    now.validation = gpt::validation_loss(t, judged, tokens, enough);
    memory.use(gpt::training_plan);
    if (!enough())
      gpt::check_finite("validation loss", now.validation, now.step);  // the last update is in no other loss
  };
  // Of the validations that --eval-every asks for, the best one's model is kept. The last one is measured on more text,
  // and is none of them.
  const auto keep_best = [&] {
    if (now.step % o.eval_every != 0 || !(now.validation < at.best_validation)) return false;
    const auto write = [&] { gpt::save_model(t.net, folder / "best.safetensors"); };
    if (o.save && !report.attempt(best_failed, write)) return false;
    at.best_validation = now.validation;
    return true;
  };
  bool updating = false;  // the parameters are of no step
  gpt::step_runner steps(t, memory, o);
  const gpt::step_runner::parts parts{.next_batch = [&] { return batches.next(); },
                                      .before_update =
                                          [&] {
                                            saver.finish();  // what is being written is of what the update changes
                                            gpt::set_rate(t.optimizer.options, now.lr);
                                            updating = true;
                                          },
                                      .stop = [&] { return stop.noticed(); }};
  const gr::stopwatch run;
  const auto elapsed = [&, before = at.elapsed] { return before + run.seconds(); };
  const long long first = at.step;
  bool done = false, stopped = false;
  try {
    while (!done && !stopped) {
      const gr::stopwatch watch;
      now.lr = o.rate(now.step, o.fraction(now.step, elapsed()));
      anomalies.step = static_cast<std::size_t>(now.step + 1);
      const bool look =
          !o.memory_report.empty() && now.step == first + 1;  // the first step is not yet as the others are
      if (look) memory.start_trace(o.anomaly ? &anomalies : nullptr);
      else memory.observe(watching);

      const bool as_graph = o.graph && !look && watching == nullptr;
      const auto loss = as_graph ? steps.take_as_graph(parts) : steps.take(parts, now.step + 1);
      stopped = !loss;
      if (stopped) break;
      updating = false;
      at.step = ++now.step;
      at.tokens = now.tokens += static_cast<double>(trainer::ids::size) * o.accumulate;
      told.tell();  // on a GPU, the step before
      if (o.anomaly) gpt::check_worth_saving(t.net);

      if (look) report.attempt([&] { gpt::write_report(o.memory_report, chosen, &memory.finish_trace()); });
      memory.observe(nullptr);
      if (!look) profile.add_step(watch.seconds());
      at.training_seconds += watch.seconds();
      at.elapsed = elapsed();
      now.tokens_per_second = now.tokens / at.training_seconds;
      now.flops = gpt::training_flops_per_token(parameters) * now.tokens_per_second;
      now.fraction = o.fraction(now.step, at.elapsed);
      done = now.fraction >= 1;
      now.validation = std::nan("");
      now.elapsed = elapsed();
      told.hold(now, *loss);
      if (done || now.step % o.eval_every == 0) {
        validate(done ? 32768 : 8192, [&] { return stop.noticed(); });
        now.elapsed = elapsed();
        told.hold(now, *loss);
      }
      stopped = stop.noticed();
      if (stopped) break;
      // Saved first and shown then: what is printed may find nobody to read it. A checkpoint knows of the best model
      // that is there.
      keep_folder();
      if (!done) keep_best();
      if (done) save_at_end();
      else if (o.save) saver.save_if_due(now.step);
      told.tell_unless_late();
    }
  } catch (const gpt::diverged&) {
    throw;  // what is there is not worth saving
  } catch (const gr::anomaly_finder::found&) { throw; } catch (...) {
    // The text has changed, or memory is short: the model is that of the last whole step, and healthy. Saving may take
    // its time, and fail: why the run ends is told before, and thrown after.
    if (o.save && !updating && at.step > first) {
      tell_why_it_ends();
      try {
        save_at_end();
      } catch (const std::exception& e) { unsaved = e.what(); }
      if (!unsaved.empty()) report.warn(unsaved);
      else report.line("saved " + model_file.string() + " after step " + std::to_string(at.step));
    }
    throw;
  }

  // Asked to end early: the model comes first, how good it is comes then.
  if (stopped) {
    told.record();
    save_at_end();
    validate(8192, [] { return false; });
    if (keep_best() && o.save && unsaved.empty()) unsaved = saver.save();
    now.loss = told.loss();
    now.elapsed = elapsed();
    if (at.step > first) report.step(now);  // the log has an earlier one, with the loss that is not known here
  }
  if (!unsaved.empty()) throw gr::error(unsaved);
  gpt::report_end(report, chosen,
                  {.validation = now.validation,
                   .bytes_a_token = gpt::bytes_a_token(data, judged, stopped ? 8192 : 32768),
                   .steps = now.step,
                   .saved = o.save ? model_file.string() : "",
                   .scales_loss = trainer::scales_loss,
                   .loss_scale = t.loss_scale(),
                   .skipped = static_cast<std::size_t>(now.step) - t.optimizer.steps(),  // before it was resumed, too
                   .peak_mib = memory.peak_mib()});
  if (o.profile) {
    const gr::machine_rates rates{machine_flops, gpt::machine_bandwidth(o.threads)};
    report.line(gr::profile_table(profile, rates, gr::output_columns()));
    report.attempt([&] { gr::write_file_atomically(folder / "profile.txt", gr::profile_table(profile, rates)); });
  }
  const bool readable = data.bytes() || data.tokenizer() != nullptr;
  if (o.sample > 0 && readable && (o.save || !gpt::on_gpu) && !stopped && !stop.noticed()) {
    report.line("a sample:");
    memory.free_workspace();  // for the keys and values of the text
    const gpt::closing_sample sample{o.sample, o.seed, [&] { return stop.noticed(); }};
    sample.write(t.net, memory.after, model_file);
  }
  if (o.save) report.line("more of it: scripts/sample.sh " + folder.string());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const auto work = [&] {
    const auto o = gpt::read_options(argc, argv, "Trains a GPT on text, as bytes or as tokens.");
    if (!o) return 0;
    gpt::use_gpu(o->gpu);
    return o->plan ? plan(*o) : train(*o);
  };
  return gpt::run_program("gpt_train", work, "try a smaller --batch of scripts/train.sh, or --memory-budget");
}
