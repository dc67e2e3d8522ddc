// Trains a GPT on text, as bytes or as tokens. Read main from top to bottom; the model is in model.hpp, its sizes in config.hpp.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <string>

#include <gradus/data/dataset.hpp>
#include <gradus/data/prefetch.hpp>
#include <gradus/meta/measured_trace.hpp>
#include <gradus/train/profile.hpp>

#include "generate.hpp"
#include "interrupt.hpp"
#include "memory.hpp"
#include "model_file.hpp"
#include "options.hpp"
#include "program.hpp"
#include "report.hpp"
#include "resume.hpp"
#include "run_saver.hpp"
#include "speed.hpp"

namespace {

namespace gr = gradus;
using trainer = gpt::training<gr::cpu, gpt::sizes, gpt::batch_size, gpt::token, gpt::precision, gpt::optimizer>;
using windows = gr::token_windows<gpt::token, gpt::sizes.context>;

/// Throws if a loss says that the parameters are no longer worth saving.
void check_finite(const char* what, double loss, long long step) {
  if (!std::isfinite(loss))
    throw gr::error(std::string("the ") + what + " is no longer finite at step " + std::to_string(step) +
                    "; try a lower --lr");
}

std::size_t batches_of(std::size_t tokens) { return std::max<std::size_t>(tokens / trainer::ids::size, 1); }

/// Mean loss over about `tokens` tokens, in windows spread evenly over the data, with nothing recorded and no dropout. NaN if
/// `stop` says before the end that it is not to go on.
double validation_loss(trainer& t, const gr::dataset& data, const windows& judged, std::size_t tokens,
                       const std::function<bool()>& stop) {
  const std::size_t batches = batches_of(tokens);
  double sum = 0;
  for (std::size_t part = 0; part < batches; ++part) {
    if (stop()) return std::nan("");
    const auto batch = judged.spread_batch<gpt::batch_size>(part, batches);
    sum += static_cast<double>(t.evaluate(batch.inputs.data(), batch.targets.data()));
    data.release();
  }
  return sum / static_cast<double>(batches);
}

/// How many bytes of text a token of those that validation_loss looks at stands for; 0 where nobody knows.
double bytes_a_token(const gr::dataset& data, const windows& judged, std::size_t tokens) {
  if (data.bytes()) return 1;
  if (data.tokenizer() == nullptr) return 0;
  const std::size_t batches = batches_of(tokens);
  std::size_t bytes = 0;
  for (std::size_t part = 0; part < batches; ++part)
    for (const gpt::token t : judged.spread_batch<gpt::batch_size>(part, batches).targets)
      bytes += data.tokenizer()->bytes_of(static_cast<gr::bpe_tokenizer::token>(t)).size();
  return static_cast<double>(bytes) / static_cast<double>(batches * trainer::ids::size);
}

/// "1.2345 nats a byte", "4.3210 nats a token, 1.2345 a byte"
std::string nats_of(double loss, double bytes_a_token) {
  char text[96];
  if (bytes_a_token == 1) std::snprintf(text, sizeof text, "%.4f nats a byte", loss);
  else if (bytes_a_token == 0) std::snprintf(text, sizeof text, "%.4f nats a token", loss);
  else std::snprintf(text, sizeof text, "%.4f nats a token, %.4f a byte", loss, loss / bytes_a_token);
  return text;
}

int plan(const gpt::options& o) {
  const gpt::chosen_memory m = gpt::choose_memory(o, gpt::machine_flops(o.threads));
  std::printf("%s, batch %zu\n", gpt::describe_model().c_str(), gpt::batch_size);
  gpt::print_memory(m);
  gpt::write_report(o.memory_report, m, nullptr);
  if (!o.memory_report.empty()) std::printf("wrote %s\n", o.memory_report.c_str());
  return 0;
}

int train(const gpt::options& o) {
  // The data: texts as bytes, texts that a tokenizer encodes, or tokens.
  const gr::dataset data(o.files, gpt::sizes.context);
  gpt::check_vocabulary(data.vocabulary());
  const windows training_data(data.train(), gpt::sizes.vocabulary),
      validation_data(data.validation(), gpt::sizes.vocabulary);

  // Where the run is resumed, if it is.
  const gpt::run_lock alone(o.resume);
  const gpt::data_identity identity{training_data.tokens(), validation_data.tokens(), data.fingerprint()};
  gpt::found_checkpoint from = gpt::find_checkpoint(o, identity);

  // The memory: what stays from step to step comes from the heap, what a step needs lies where the plan says.
  const double machine_flops = gpt::machine_flops(o.threads);
  const gpt::chosen_memory memory = gpt::choose_memory(o, machine_flops);
  gr::step_trace measured;  // ends last: if the traced step throws, the model still gives its memory back through it
  gr::stream stream;
  if (o.threads > 0) gr::set_thread_count(stream, o.threads);
  gr::host_resource heap;
  gr::stats_resource kept(heap);
  gr::planned_resource planned(memory.plans, heap, stream);
  gr::trace_resource traced(planned);
  gr::context persistent{stream, kept};
  gr::context transient{stream, o.memory_report.empty() ? static_cast<gr::memory_resource&>(planned) : traced};

  // The model and what trains it.
  gpt::step_options chosen = o.step();
  chosen.regions = memory.regions;
  trainer t(persistent, transient, chosen);
  const auto schedule = o.learning_rate();
  if (!from.path.empty()) {
    try {
      gr::read_checkpoint(from.path, persistent, t.net, t.optimizer);
    } catch (const gr::error& e) {  // its tensors are not those of this run: the one before may be good
      from = gpt::find_checkpoint(o, identity, e.what());
      gr::read_checkpoint(from.path, persistent, t.net, t.optimizer);
    }
  }
  gpt::run_position at = from.at;
  if (!from.path.empty()) {
    gpt::move_damaged_checkpoint(from);
    t.resume_after(static_cast<std::uint32_t>(at.step * o.accumulate), at.loss_scale, at.clean_steps);
  }

  // The run folder.
  const gpt::interrupts stop;  // from here on there is something to lose
  const std::size_t parameters = gr::parameter_count(t.net);
  const auto folder = from.path.empty() ? gpt::make_run_folder(o.out) : std::filesystem::path(o.resume);
  // The plan now, while the folder is empty and a run that fails here can be tried again; what was measured later.
  gpt::write_report(o.memory_report, memory, nullptr);
  gpt::reporter report(folder, machine_flops, at.step);
  const gpt::run_lock new_run(from.path.empty() ? folder : std::filesystem::path());
  gpt::write_flags(folder, o.flags);
  if (data.tokenizer() != nullptr) gr::write_tokenizer_json(folder / "tokenizer.json", *data.tokenizer());
  if (!from.warning.empty()) report.warn(from.warning);
  const auto checkpoint = [&] {
    at.loss_scale = t.loss_scale();
    at.clean_steps = t.clean_steps();
    gr::write_checkpoint(gpt::checkpoint_path(folder), persistent, t.net, t.optimizer, metadata_of(o, identity, at),
                         gpt::previous_checkpoint_path(folder));
  };
  gpt::run_saver saver([&] { gpt::check_worth_saving(t.net); }, checkpoint, report, o.save_retry);
  saver.set_pace(o.save_seconds, o.save_steps);
  gpt::run_saver model_saver([] {}, [&] { gpt::save_model(t.net, folder / "model.safetensors"); }, report,
                             o.save_retry);
  // The run and, for use, the model alone. Returns what was wrong.
  const auto save_at_end = [&] {
    const std::string problem = saver.save();
    return problem.empty() ? model_saver.save() : problem;
  };
  if (from.path.empty())
    report.log({{"model", "gpt"},
                {"layers", gpt::sizes.layers},
                {"heads", gpt::sizes.heads},
                {"width", gpt::sizes.width},
                {"context", gpt::sizes.context},
                {"vocabulary", gpt::sizes.vocabulary},
                {"precision", gpt::precision_name},
                {"optimizer", gpt::optimizer_name},
                {"schedule", o.schedule},
                {"batch", gpt::batch_size},
                {"parameters", parameters},
                {"accumulate", o.accumulate},
                {"lr", o.lr},
                {"seed", o.seed},
                {"threads", gr::thread_count(stream)},
                {"checkpoint", o.memory_budget.empty() ? o.checkpoint : "budget " + o.memory_budget},
                {"planned_mib", static_cast<double>(memory.total_bytes()) / (1 << 20)},
                {"gemm_tflops", machine_flops / 1e12}});
  char line[256];
  std::snprintf(line, sizeof line, "%s, %.2fM parameters, batch %zu; %.2f%s", gpt::describe_model().c_str(),
                static_cast<double>(parameters) / 1e6, gpt::batch_size * static_cast<std::size_t>(o.accumulate),
                static_cast<double>(data.tokens()) / 1e6, data.bytes() ? " MB of text" : "M tokens");
  report.line(line);
  std::snprintf(line, sizeof line,
                "memory: %.0f MiB persistent, %.0f MiB for steps, planned; %.0f MiB of it kept for backward",
                static_cast<double>(memory.plan.persistent_bytes) / (1 << 20),
                static_cast<double>(memory.workspace_bytes) / (1 << 20),
                static_cast<double>(memory.plan.saved_bytes) / (1 << 20));
  report.line(line);
  std::snprintf(line, sizeof line, "machine: %s, %.3f TFLOP/s in the model's matrix products; run folder %s",
                gpt::counted(static_cast<gr::index>(gr::thread_count(stream)), "thread").c_str(), machine_flops / 1e12,
                folder.string().c_str());
  report.line(line);
  if (!from.path.empty()) {
    std::snprintf(line, sizeof line, "resumed after step %lld", at.step);
    report.line(line);
  }

  // Training.
  const auto parts = static_cast<std::uint64_t>(o.accumulate);
  gr::prefetcher batches_ahead(
      [&](std::uint64_t number) {
        return o.order == "shuffled"
                   ? training_data.shuffled_batch<gpt::batch_size>(o.seed, number)
                   : training_data.random_batch<gpt::batch_size>(o.seed, static_cast<std::uint32_t>(number / parts),
                                                                 static_cast<std::uint32_t>(number % parts));
      },
      {.first = static_cast<std::uint64_t>(at.step) * parts,
       .workers = static_cast<std::size_t>(o.workers),
       .ahead = static_cast<std::size_t>(std::max(2 * o.workers, 1))});
  const double flops_per_token = gpt::training_flops_per_token(parameters);
  const gpt::stopwatch run;
  gpt::step_report now{.step = at.step, .tokens = at.tokens};
  now.loss = std::nan("");
  bool done = false, stopped = false;
  std::string unsaved;  // what kept the model from being written
  const auto validate = [&](std::size_t tokens, const std::function<bool()>& enough) {
    planned.use(gpt::evaluation_plan);
    now.validation = validation_loss(t, data, validation_data, tokens, enough);
    planned.use(gpt::training_plan);
    if (!enough()) check_finite("validation loss", now.validation, now.step);  // the last update is in no other loss
  };
  gr::profiler profile;
  const auto observe = [&](gr::observer* who) {
    transient.observe(who);
    persistent.observe(who);
  };
  const auto at_start = static_cast<std::uint32_t>(at.step);
  const auto elapsed = [&, before = at.elapsed] { return before + run.seconds(); };
  for (std::uint32_t step = at_start; !done; ++step) {
    const gpt::stopwatch watch;
    // How much of the run is behind us, by steps or by the clock, whichever is further.
    if (o.steps > 0) now.fraction = static_cast<double>(step) / static_cast<double>(o.steps);
    if (o.minutes > 0) now.fraction = std::max(now.fraction, elapsed() / (60 * o.minutes));
    // The rate rises over --warmup steps, or over the first tenth of a run that is shorter than that.
    const double risen = std::max((step + 1.0) / static_cast<double>(std::max(o.warmup, 1LL)), 10 * now.fraction);
    now.lr = std::min(1.0, risen) * schedule(now.fraction);

    observe(o.profile ? &profile : nullptr);
    const bool look = !o.memory_report.empty() && step == at_start + 1;  // the first step is not yet as the others are
    if (look) {
      traced.start(measured);
      observe(&traced);
    }
    double loss = 0;
    int batches = 0;
    do {
      const auto batch = batches_ahead.next();
      loss += static_cast<double>(t.add_batch(batch.inputs.data(), batch.targets.data())) / o.accumulate;
    } while (++batches < o.accumulate && !stop.noticed());
    check_finite("loss", loss, step + 1LL);
    if (batches < o.accumulate) {  // a step that is cut short is not taken
      t.abandon();
      stopped = true;
      break;
    }
    now.loss = loss;
    if (step % 4 == 0) data.release();
    gpt::set_rate(t.optimizer.options, now.lr);
    t.update();
    if (look) {
      traced.finish();
      for (std::size_t c = 0; c < gr::category_count; ++c) {
        const std::size_t bytes = kept.of(static_cast<gr::category>(c)).live;
        measured.live_before_by[c] += bytes;
        measured.live_before += bytes;
      }
      try {
        gpt::write_report(o.memory_report, memory, &measured);
      } catch (const gr::error& e) { report.warn(e.what() + std::string("; the run goes on")); }
    }

    observe(nullptr);
    if (!look) profile.add_step(watch.seconds());
    at.training_seconds += watch.seconds();
    at.step = now.step = step + 1;
    at.tokens = now.tokens += static_cast<double>(trainer::ids::size) * o.accumulate;
    at.elapsed = elapsed();
    now.tokens_per_second = now.tokens / at.training_seconds;
    now.flops = flops_per_token * now.tokens_per_second;
    done = (o.steps > 0 && now.step >= o.steps) || (o.minutes > 0 && elapsed() >= 60 * o.minutes);
    now.validation = std::nan("");
    if (done || now.step % o.eval_every == 0) validate(done ? 32768 : 8192, [&] { return stop.noticed(); });
    stopped = stop.noticed();
    if (stopped) break;
    const bool best = !done && now.validation < at.best_validation;  // the last one is measured on more text
    if (best) at.best_validation = now.validation;
    // Saved first and told then: what is printed may find nobody to read it.
    if (o.save && done) unsaved = save_at_end();
    else if (o.save) saver.save_if_due(now.step);
    if (best && o.save && unsaved.empty()) {
      try {
        gpt::save_model(t.net, folder / "best.safetensors");
      } catch (const gr::error& e) { report.warn(e.what() + std::string("; the run goes on")); }
    }
    now.elapsed = elapsed();
    report.step(now);
  }

  // Asked to end early: the model comes first, how good it is comes then.
  if (stopped) {
    if (o.save) unsaved = save_at_end();
    validate(8192, [] { return false; });
    now.elapsed = elapsed();
    report.step(now);
  }
  if (!unsaved.empty()) throw gr::error(unsaved);
  const std::string nats =
      nats_of(now.validation, data.bytes() ? 1 : bytes_a_token(data, validation_data, stopped ? 8192 : 32768));
  if (o.save) report.line("saved " + (folder / "model.safetensors").string());
  std::snprintf(line, sizeof line, "validation loss %s after %lld steps; %.0f MiB planned, the process's peak %.0f MiB",
                nats.c_str(), now.step, static_cast<double>(memory.total_bytes()) / (1 << 20), gpt::process_peak_mib());
  report.line(line);
  if (t.scales_loss) {
    std::snprintf(line, sizeof line, "loss scale %g at the end; updates skipped where gradients overflowed: %zu",
                  t.loss_scale(), t.optimizer.skipped());
    report.line(line);
  }
  if (o.profile) {
    const std::string table = gr::profile_table(profile, {machine_flops, gpt::machine_bandwidth(o.threads)});
    report.line(table);
    try {
      gr::write_file_atomically(folder / "profile.txt", table);
    } catch (const gr::error& e) { report.warn(e.what()); }
  }
  if (o.sample > 0 && data.bytes() && !stopped && !stop.noticed()) {
    report.line("a sample:");
    planned.use(gpt::sampling_plan);
    const auto logits_of = [&t](const gpt::token* window) { return t.logits(window); };
    gpt::generate(logits_of, "\n", o.sample, {.seed = o.seed}, [&](char c) {
      std::putchar(c);
      std::fflush(stdout);
      return !stop.noticed();
    });
    std::putchar('\n');
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const auto work = [&] {
    const auto o = gpt::read_options(argc, argv, "Trains a GPT on text, byte by byte.");
    if (!o) return 0;
    return o->plan ? plan(*o) : train(*o);
  };
  return gpt::run_program("gpt_train", work, "try a smaller --batch of scripts/train.sh, or --memory-budget");
}
