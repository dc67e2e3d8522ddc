#pragma once
#if defined(__GNUC__) && !defined(__GXX_RTTI)
#error "gradus/run/run.hpp needs the types of exceptions: no -fno-rtti, or the target gradus::compiled"
#include "see the error above"
#endif

#include <cstdint>
#include <cstdio>
#include <system_error>

#include "../io/safetensors.hpp"
#include "../report/anomaly.hpp"
#include "program.hpp"
#include "run.hpp"

namespace gradus {

GRADUS_IMPL void check_finite(std::string_view what, double loss, long long step) {
  if (!std::isfinite(loss))
    throw diverged("the " + std::string(what) + " is no longer finite at step " + std::to_string(step) +
                   "; try a lower --lr");
}

namespace detail {

// Throws gradus::error for metadata that no run can have written.
GRADUS_IMPL run_state state_in(const run_metadata& metadata) {
  const auto amount = [&](const char* name) {
    const auto value = metadata.number<double>(name);
    if (!std::isfinite(value) || value < 0)
      throw error("its '" + std::string(name) + "' is '" + metadata.text(name) + "', which cannot be");
    return value;
  };
  run_state state;
  state.step = metadata.number<std::uint32_t>("step");
  state.tokens = amount("tokens");
  state.training_seconds = amount("training_seconds");
  state.elapsed = amount("elapsed");
  state.best_validation = metadata.number<double>("best_validation");              // infinite until there is one
  if (metadata.all().contains("next_lr")) state.planned_rate = amount("next_lr");  // not in earlier versions
  if (metadata.number<std::uint32_t>("optimizer.steps") > state.step)
    throw error("its optimizer has taken more steps than the run");
  return state;
}

}  // namespace detail

GRADUS_IMPL run::run(run_options o, run_metadata identity, team& ranks, std::function<bool()> stop)
    : options_(std::move(o)),
      identity_(std::move(identity)),
      team_(ranks),
      stop_(std::move(stop)),
      resumed_(!options_.resume.empty()),
      folder_(options_.resume) {
  if (options_.steps <= 0 && options_.minutes <= 0) throw error("run: has no end; give it steps or minutes");
  if (!resumed_) return;
  team_.on_leader([this] {
    lock_ = std::make_unique<run_lock>(folder_);
    std::error_code problem;
    if (!std::filesystem::is_directory(folder_, problem))
      throw error("--resume: " + folder_.string() + ": no such folder");
    find_checkpoint();
  });
}
GRADUS_IMPL run::run(run_options o, run_metadata identity, std::function<bool()> stop)
    : run(std::move(o), std::move(identity), alone_, std::move(stop)) {}
GRADUS_IMPL run::~run() = default;

GRADUS_IMPL std::string run::value_in(const run_metadata& found, const std::string& name) const {
  const auto implied = options_.implied.find(name);
  return implied != options_.implied.end() && !found.all().contains(name) ? implied->second : found.text(name);
}

// The newest good checkpoint from age_ on.
GRADUS_IMPL void run::find_checkpoint() {
  std::error_code problem;
  for (; age_ < most_checkpoints; ++age_) {
    found_ = checkpoint_path(folder_, age_);
    if (!std::filesystem::exists(found_, problem)) continue;
    run_metadata metadata;
    try {
      metadata = read_metadata(found_);
      for (const auto& [name, value] : identity_.all()) value_in(metadata, name);
      state = detail::state_in(metadata);
      safetensors_file(found_).check_checksum();
    } catch (const error& e) {
      const std::string what = e.what(), path = found_.string();
      damage_ += (damage_.empty() ? "" : "; ") +
                 (what.starts_with(path) ? what : path + ": is not a checkpoint of a run: " + what);
      continue;
    }
    check_is_same_run(metadata, found_);
    check_is_not_over(found_);
    return;
  }
  if (damage_.empty()) throw error("--resume: " + folder_.string() + ": has no checkpoint");
  throw error(damage_ + "; no checkpoint is left to resume from; " + advice());
}

GRADUS_IMPL void run::check_is_same_run(const run_metadata& found, const std::filesystem::path& file) const {
  for (const auto& [name, value] : identity_.all())
    if (const std::string was = value_in(found, name); was != value)
      throw error(file.string() + ": its " + name + " is " + was + ", and this run's is " + value +
                  "; resume it with the same value, or start a new run with --out");
}

// A run that has had its steps, and has written the model of this checkpoint or of a later one.
GRADUS_IMPL void run::check_is_not_over(const std::filesystem::path& file) const {
  if (options_.model.empty()) return;
  std::error_code problem;
  const auto written = std::filesystem::last_write_time(folder_ / options_.model, problem);
  if (problem || written < std::filesystem::last_write_time(file, problem)) return;
  const auto check = [this](bool over, const char* flag, const std::string& amount) {
    if (over)
      throw bad_flag(std::string(flag) + ": the run in " + folder_.string() + " has taken " + amount +
                     " already; give more than that to resume it");
  };
  check(options_.steps > 0 && state.step >= options_.steps, "--steps", std::to_string(state.step) + " steps");
  check(options_.minutes > 0 && state.elapsed >= 60 * options_.minutes, "--minutes",
        std::to_string(state.elapsed / 60) + " minutes");
}

// What a run without a checkpoint is still good for.
GRADUS_IMPL std::string run::advice() const {
  std::error_code problem;
  for (const std::string& name : {options_.model, options_.names.best})
    if (!name.empty() && std::filesystem::exists(folder_ / name, problem))
      return "its " + name + " can still be used" +
             (options_.use_command.empty() ? "" : ": " + options_.use_command + " " + folder_.string());
  return "start a new run with --out";
}

GRADUS_IMPL void run::read_checkpoint() {
  for (bool read = false; !read;) {
    found_ = team_.from_leader(found_.string());
    age_ = team_.from_leader(age_);
    if (!team_.leads()) state = detail::state_in(read_metadata(found_));
    try {
      model_->resume(model_->read(found_), state.step);
      read = true;
    } catch (const out_of_memory&) {
      throw;  // not the file's fault
    } catch (const rank_failed&) { throw; } catch (const error& e) {
      team_.on_leader([&] {
        damage_ += (damage_.empty() ? "" : "; ") + std::string(e.what());
        ++age_;
        find_checkpoint();
      });
    }
  }
  if (team_.leads() && !damage_.empty()) move_damaged_checkpoint(folder_, age_);
}

GRADUS_IMPL void run::begin(resumable& model) {
  model_ = &model;
  if (resumed_) read_checkpoint();
  state.loss = std::nan("");
  state.fraction = options_.fraction(state.step, state.elapsed);
  ended_before_ = over();
  first_ = state.step;
  before_ = state.elapsed;
  clock_ = {};
  saver_.emplace(
      [this] {
        report_->record_held();  // the log gets every step that a checkpoint has, whatever ends the run
        if (model_->shares_states()) team_.begin_round();
        check_parameters();
      },
      [this] {
        if (model_->shares_states()) team_.begin_round();
        write_checkpoint();
      },
      [this](const std::string& text) { report_->warn(text); }, options_.save_retry);
  if (!team_.leads()) return;
  make_folder();
  report_.emplace(folder_, options_.names, state.step);
  if (resumed_ && options_.write_settings) report_->attempt([this] { options_.write_settings(folder_); });
  if (options_.tensorboard) report_->write_events(state.step);
  if (!damage_.empty())
    report_->warn(damage_ + "; resuming from " + found_.filename().string() + ", step " + std::to_string(state.step));
  if (resumed_) report_resumed();
  saver_->set_pace(options_.save_seconds, options_.save_steps);
  if (!model_->shares_states()) saver_->write_in_background([this] { return prepare_checkpoint(); });
}

GRADUS_IMPL void run::report_resumed() {
  report_->line("resumed after step " + std::to_string(state.step));
  if (!options_.rate || state.planned_rate == 0) return;
  const double rate = options_.rate(state.step, state.fraction);
  if (std::abs(rate - state.planned_rate) <= 1e-6 * state.planned_rate) return;
  char text[192];
  std::snprintf(
      text, sizeof text,
      "the learning rate jumps from %.2e to %.2e: the length of the run, its highest rate or its schedule are "
      "not those that the run had",
      state.planned_rate, rate);
  report_->line(text);
}

// Settings are written while the folder is empty: if that fails, the same command works again.
GRADUS_IMPL void run::make_folder() {
  if (resumed_) return;
  folder_ = make_run_folder(options_.out);
  if (options_.write_settings) options_.write_settings(folder_);
  lock_ = std::make_unique<run_lock>(folder_);
}

// If the folder was removed, makes it again, and soon a checkpoint in it.
GRADUS_IMPL void run::restore_folder() {
  std::error_code problem;
  const std::filesystem::path needed = options_.settings.empty() ? folder_ : folder_ / options_.settings;
  if (std::filesystem::exists(needed, problem)) return;
  report_->attempt(folder_failed_, [&] {
    const bool whole = !lock_->holds(folder_);  // the log may have made it again
    std::filesystem::create_directories(folder_, problem);
    if (options_.write_settings) options_.write_settings(folder_);
    if (whole) lock_ = std::make_unique<run_lock>(folder_);
    report_->warn(whole ? folder_.string() + ": was removed; it is made again"
                        : needed.string() + ": was removed; it is written again");
    if (!std::filesystem::exists(folder_ / options_.names.best, problem))
      state.best_validation = std::numeric_limits<double>::infinity();
    saver_->hurry();
  });
}

GRADUS_IMPL bool run::next() {
  if (over() || stopped_early_) return false;
  now_ = team_.agree(elapsed(), stop_());
  step_clock_ = {};
  return !now_.stop;
}
GRADUS_IMPL double run::rate() {
  return state.lr = options_.rate(state.step, options_.fraction(state.step, now_.elapsed));
}
GRADUS_IMPL void run::wait_for_checkpoint() {
  saver_->finish();
  updating_ = true;
}
GRADUS_IMPL void run::step_done(std::function<step_figures()> figures) {
  const double seconds = step_clock_.seconds();
  if (!updating_)
    throw error(
        "run: an update may have changed a checkpoint that was being written; call "
        "wait_for_checkpoint() before each");
  now_ = team_.agree(elapsed(), stop_());
  updating_ = false;
  if (report_) report_->show_held();
  ++state.step;
  state.tokens += options_.units_per_step;
  state.training_seconds += seconds;
  state.elapsed = now_.elapsed;
  state.fraction = options_.fraction(state.step, state.elapsed);
  state.tokens_per_second = state.tokens / state.training_seconds;
  state.flops = options_.flops_per_unit * state.tokens_per_second;
  state.validation = std::nan("");
  state.bits_per_byte = 0;
  state.fields.clear();
  state.note.clear();
  if (!report_) return;
  figures_ = std::move(figures);
  hold();
  if (!options_.late_losses) report_->held_loss();
}
GRADUS_IMPL void run::hold() {
  if (!figures_) return;
  report_->hold(state, [figures = figures_, step = state.step] {
    const step_figures found = figures();
    check_finite("loss", found.loss, step);
    return found;
  });
}

GRADUS_IMPL void run::validated(const std::optional<validation>& found) {
  state.validation = found ? found->loss : std::nan("");
  if (report_ && found) {
    check_finite("validation loss", found->loss, state.step);  // no other loss has the last update
    state.bits_per_byte = found->bits_per_byte;
    state.fields = found->fields;
    state.note = found->note;
  }
  if (report_) {
    state.elapsed = elapsed();
    hold();
  }
  if (!ending_) return;
  if (keep_best() && options_.save) unsaved_ = saves([this] { return unsaved_.empty() ? saver_->save() : unsaved_; });
  if (report_) report_->show_held();
}

GRADUS_IMPL void run::save_and_show() {
  if (now_.stop) return;
  if (team_.leads()) restore_folder();
  if (over()) {
    save_at_end();
  } else {
    keep_best();
    if (options_.save) saves([this] { return saver_->save_if_due(state.step), std::string(); });
  }
  if (report_ && (!options_.late_losses || !std::isnan(state.validation))) report_->show_held();
}

GRADUS_IMPL void run::check_parameters() {
  std::string wrong = model_->find_not_finite();
  if (model_->shares_parameters() && team_.agree(0, !wrong.empty()).stop) wrong = "a parameter";
  if (!wrong.empty()) throw error("not saved: " + wrong + " is no longer finite; try a lower --lr");
}

// Saves: rank 0 tries as often as it has to, and the others join each try if they have a part in it. Returns why rank 0
// could not save.
template <class F>
std::string run::saves(const F& by_leader) {
  if (!model_->shares_states()) return team_.leads() ? by_leader() : "";
  return team_.rounds(by_leader, [this, checked = false]() mutable {
    if (!std::exchange(checked, true)) check_parameters();
    else write_checkpoint();
  });
}

GRADUS_IMPL run_metadata run::metadata_now() {
  restore_folder();
  run_metadata metadata = identity_;
  metadata.set("step", state.step);
  metadata.set("tokens", state.tokens);
  metadata.set("training_seconds", state.training_seconds);
  metadata.set("elapsed", state.elapsed);
  metadata.set("best_validation", state.best_validation);
  metadata.set("next_lr",
               options_.rate ? options_.rate(state.step, options_.fraction(state.step, state.elapsed)) : 0.0);
  model_->describe(metadata);
  return metadata;
}
GRADUS_IMPL void run::write_checkpoint() {
  if (!model_->shares_states()) return prepare_checkpoint()();
  const auto keep = static_cast<std::size_t>(options_.keep_checkpoints);
  const run_metadata metadata = team_.leads() ? metadata_now() : run_metadata{};
  model_->write(checkpoint_path(folder_), metadata, older_checkpoint_paths(folder_, keep));
  if (team_.leads()) remove_old_checkpoints(folder_, keep);
}
GRADUS_IMPL std::function<void()> run::prepare_checkpoint() {
  const run_metadata metadata = metadata_now();
  return [folder = folder_, keep = static_cast<std::size_t>(options_.keep_checkpoints),
          write = model_->prepare(metadata)] {
    write(checkpoint_path(folder), older_checkpoint_paths(folder, keep));
    remove_old_checkpoints(folder, keep);
  };
}

// Rank 0 writes the model. If ranks share parameters, all gather each tensor before it is written.
GRADUS_IMPL void run::write_model(const std::string& name) {
  if (!model_->shares_parameters()) {
    if (team_.leads()) model_->write_model(folder_ / name, nullptr);
    return;
  }
  std::string problem;
  if (team_.leads()) {
    try {
      model_->write_model(folder_ / name, [this] { team_.begin_round(); });
    } catch (const rank_failed&) { throw; } catch (const error& e) {
      problem = e.what();
    }
    team_.end_rounds();
  } else {
    model_->read_with_writer([this] { return team_.joins_round(); });
  }
  if (problem = team_.from_leader(problem); !problem.empty()) throw error(problem);
}

// What a user finds at the end.
GRADUS_IMPL std::filesystem::path run::result() const {
  return options_.model.empty() ? checkpoint_path(folder_) : folder_ / options_.model;
}
// The run first, then the model alone, for use.
GRADUS_IMPL void run::save_at_end() {
  if (!options_.save) return;
  unsaved_ = saves([this] { return saver_->save(); });
  if (options_.model.empty()) return;
  if (model_->shares_states() ? team_.from_leader(!unsaved_.empty()) : !unsaved_.empty()) return;
  const auto write = [this] {
    if (model_->shares_parameters()) team_.begin_round();
    restore_folder();
    write_model(options_.model);
  };
  const auto by_leader = [&] {
    return retry(
        write, [this](const std::string& text) { report_->warn(text); }, options_.save_retry);
  };
  if (model_->shares_parameters()) unsaved_ = team_.rounds(by_leader, [this] { write_model(options_.model); });
  else if (team_.leads()) unsaved_ = by_leader();
}

// Of the validations that eval_every asks for; the last one of a run may be over more data.
GRADUS_IMPL bool run::keep_best() {
  if (!team_.from_leader(at_eval() && state.validation < state.best_validation)) {
    count_worse();
    return false;
  }
  worse_ = 0;
  bool kept = true;
  if (options_.save && !options_.names.best.empty()) try {
      write_model(options_.names.best);
    } catch (const rank_failed&) { throw; } catch (const error& e) {
      kept = false;
      if (report_) report_->attempt(best_failed_, [&] { throw e; });
    }
  best_failed_ = best_failed_ && !kept;
  if (!team_.from_leader(kept)) return false;
  state.best_validation = state.validation;
  return true;
}
GRADUS_IMPL void run::count_worse() {
  if (stopped_early_ || options_.early_stop == 0 || !at_eval()) return;
  if (++worse_ < options_.early_stop) return;
  line("early stop: the last " + std::to_string(worse_) + " validations brought no new best");
  stopped_early_ = true;
}

GRADUS_IMPL void run::save_after(const std::exception& e) {
  const bool spoilt =
      dynamic_cast<const diverged*>(&e) != nullptr || dynamic_cast<const anomaly_finder::found*>(&e) != nullptr;
  if (!report_ || spoilt || !options_.save || updating_ || state.step == first_) return;
  if (model_->shares_states()) {
    report_->warn("not saved: ranks share optimizer states, and one has ended; resume from the last checkpoint");
    return;
  }
  report_->warn(std::string(e.what()) + "; the run is saved and ends");
  try {
    save_at_end();
  } catch (const std::exception& problem) { unsaved_ = problem.what(); }
  if (!unsaved_.empty()) report_->warn(unsaved_);
  else report_->line("saved " + result().string() + " after step " + std::to_string(state.step));
}

GRADUS_IMPL bool run::end_steps() {
  ended_ = true;
  if (over() && !ended_before_ && !now_.stop) return true;
  ending_ = true;
  model_->abandon();
  if (report_) report_->record_held();
  save_at_end();
  return over();
}
GRADUS_IMPL void run::end() {
  if (!ended_) end_steps();
  if (!unsaved_.empty()) throw error(unsaved_);
  if (report_) report_->show_held();
  if (options_.save) line("saved " + result().string());
}

GRADUS_IMPL void run::line(std::string_view text) {
  if (report_) report_->line(text);
}
GRADUS_IMPL void run::log(const std::vector<log_field>& fields) {
  if (report_) report_->log(fields);
}
GRADUS_IMPL void run::warn(std::string_view text) {
  if (report_) report_->warn(text);
}

}  // namespace gradus
