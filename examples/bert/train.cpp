// Trains a BERT to classify texts. The loop is in train(), the model in model.hpp, a step's arithmetic in training.hpp
// and ../gpt/step.hpp, its memory in memory.cpp, the data in data.cpp, the flags in options.cpp.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <gradus/core/byte_size.hpp>
#include <gradus/cpu/processors.hpp>
#include <gradus/data/prefetch.hpp>
#include <gradus/run/checkpoint.hpp>
#include <gradus/run/interrupts.hpp>
#include <gradus/run/model_file.hpp>
#include <gradus/run/program.hpp>
#include <gradus/run/run_folder.hpp>
#include <gradus/run/run_memory.hpp>
#include <gradus/run/run_reporter.hpp>
#include <gradus/run/run_saver.hpp>
#include <gradus/run/stopwatch.hpp>

#include "data.hpp"
#include "huggingface.hpp"
#include "memory.hpp"
#include "options.hpp"

namespace {

namespace gr = gradus;
namespace fs = std::filesystem;
using trainer = bert::training<bert::device, bert::sizes, bert::batch_size, bert::sequence_length, bert::precision,
                               bert::optimizer>;

std::atomic<long long> interrupted_at = 0;

#ifdef __CUDACC__
using device_heap = gr::device_resource;
void set_threads(gr::cuda_stream&, int) {}
#else
using device_heap = gr::host_resource;
/// 0: OMP_NUM_THREADS, or one a processor; at most one a processor.
void set_threads(gr::stream& on, int threads) {
  gr::set_thread_count(
      on, std::min(threads > 0 ? threads : gr::cpu_kit::default_thread_count(), gr::cpu_kit::usable_processors()));
}
#endif

/// What the model does on all samples of `data`.
struct score {
  double loss = 0;      ///< nats a sample
  double accuracy = 0;  ///< share of labels that are the model's first choice
};
/// Nothing if `stop` tells it to end before.
std::optional<score> evaluate(trainer& t, const bert::samples& data, const std::function<bool()>& stop) {
  score s;
  for (gr::index_t number = 0; number < data.batches(); ++number) {
    if (stop()) return {};
    const bert::host_batch batch = data.batch(number);
    const auto logits = gr::to_host(t.evaluate(batch));
    for (gr::index_t i = 0; i < bert::batch_size && batch.labels[i] >= 0; ++i) {
      const auto of = std::span(logits).subspan(i * bert::sizes.labels, bert::sizes.labels);
      const auto best = std::ranges::max_element(of);
      const auto below_best = [&](auto logit) { return static_cast<double>(logit) - static_cast<double>(*best); };
      double sum = 0;
      for (const auto logit : of) sum += std::exp(below_best(logit));
      s.loss += std::log(sum) - below_best(of[static_cast<std::size_t>(batch.labels[i])]);
      s.accuracy += best - of.begin() == batch.labels[i] ? 1 : 0;
    }
  }
  const auto count = static_cast<double>(data.count());
  return score{s.loss / count, s.accuracy / count};
}

/// Training has failed: the parameters are not worth saving.
struct diverged : gr::error {
  using error::error;
};

/// What must be the same for a run to be resumed.
gr::run_metadata identity_of(const bert::options& o, const bert::run_data& data, long long steps) {
  gr::run_metadata about;
  about.set("model", std::string_view("bert"));
  for (const auto& [name, size] : {std::pair{"layers", bert::sizes.layers},
                                   {"heads", bert::sizes.heads},
                                   {"width", bert::sizes.width},
                                   {"hidden", bert::sizes.hidden},
                                   {"positions", bert::sizes.positions},
                                   {"vocabulary", bert::sizes.vocabulary},
                                   {"labels", bert::sizes.labels},
                                   {"length", bert::sequence_length},
                                   {"batch", bert::batch_size}})
    about.set(name, size);
  about.set("precision", std::string_view(bert::precision_name));
  about.set("optimizer", std::string_view(bert::optimizer_name));
  about.set("accumulate", o.accumulate);
  about.set("seed", o.seed);
  about.set("steps", steps);
  about.set("data", data.identity());
  return about;
}
gr::run_metadata metadata_of(gr::run_metadata about, const trainer& t, const gr::step_report& at) {
  about.set("step", at.step);
  about.set("elapsed", at.elapsed);
  about.set("loss_scale", t.loss_scale());
  about.set("clean_steps", t.clean_steps());
  return about;
}

/// Checkpoints in a run's folder: the last one, and the one before.
constexpr std::size_t kept_checkpoints = 2;

/// Reads the newest checkpoint of a folder that is not damaged. Returns what is wrong with newer ones. Throws gr::error
/// if it is of another run, or if none is left.
std::string resume(const fs::path& folder, gr::context<bert::device>& ctx, trainer& t, int accumulate,
                   const gr::run_metadata& expected, gr::step_report& at) {
  std::string damage;
  for (std::size_t age = 0; age < kept_checkpoints; ++age) {
    const fs::path file = gr::checkpoint_path(folder, age);
    std::error_code problem;
    if (!fs::exists(file, problem)) continue;
    gr::run_metadata found;
    try {
      found = gr::read_metadata(file);
      for (const auto& [name, value] : expected.all()) static_cast<void>(found.text(name));
      gr::safetensors_file(file).check_checksum();
    } catch (const gr::error& e) {
      damage += (damage.empty() ? "" : "; ") + std::string(e.what());
      continue;
    }
    for (const auto& [name, value] : expected.all())
      if (found.text(name) != value)
        throw gr::error(file.string() + ": its " + name + " is '" + found.text(name) + "', and this run's is '" +
                        value + "'; resume it with the flags it had");
    try {
      gr::read_checkpoint(file, ctx, t.net, t.optimizer);
    } catch (const gr::out_of_memory&) {
      throw;  // not the file's fault
    } catch (const gr::error& e) {
      damage += (damage.empty() ? "" : "; ") + std::string(e.what());
      continue;
    }
    at.step = found.number<long long>("step");
    at.elapsed = found.number<double>("elapsed");
    t.resume_after(static_cast<std::uint32_t>(at.step * accumulate), found.number<double>("loss_scale"),
                   found.number<int>("clean_steps"));
    if (!damage.empty()) gr::move_damaged_checkpoint(folder, age);
    return damage;
  }
  throw gr::error(damage.empty() ? "--resume: " + folder.string() + ": has no checkpoint"
                                 : damage + "; no checkpoint is left to resume from");
}

/// Writes the model as a folder of Hugging Face's, with the tokenizer.
void save_model(const trainer& t, const bert::run_data& data, const fs::path& folder) {
  std::error_code problem;
  fs::create_directories(folder, problem);
  if (problem) throw gr::error(folder.string() + ": cannot be made: " + problem.message());
  if constexpr (bert::on_gpu) {
    gr::stream stream;
    gr::host_resource heap;
    gr::context ctx{stream, heap};
    bert::model<gr::on<gr::cpu, bert::host_precision>, bert::sizes> on_host;
    gr::init(on_host, ctx, gr::normal_init{});
    gr::copy(t.net, on_host);
    on_host.dropout = t.net.dropout;
    bert::save_huggingface(on_host, folder, data.labels);
  } else {
    bert::save_huggingface(t.net, folder, data.labels);
  }
  if (data.tokenizer) bert::save_tokenizer(*data.tokenizer, folder);
}

int train(const bert::options& o) {
  // The folder of a run that is resumed belongs to this process from here on.
  std::unique_ptr<gr::run_lock> alone;
  if (!o.resume.empty()) {
    std::error_code problem;
    if (!fs::is_directory(o.resume, problem)) throw gr::error("--resume: " + o.resume + ": no such folder");
    alone = std::make_unique<gr::run_lock>(o.resume);
  }

  bert::text_files files = o.files;
  if (!o.init.empty()) files.label_names = bert::huggingface_labels(o.init);
  if (files.label_names.size() != bert::sizes.labels) files.label_names.clear();  // for a new classifier
  const bert::run_data data = o.dummy ? bert::dummy_data(512, o.seed) : bert::read_data(files);
  const auto steps_an_epoch = std::max<long long>(1, static_cast<long long>(data.train.batches()) / o.accumulate);
  const double of_epochs = std::ceil(o.epochs * static_cast<double>(steps_an_epoch));
  constexpr double most_steps = std::numeric_limits<std::uint32_t>::max();  // the step is part of random keys
  if (o.steps == 0 && of_epochs > most_steps)
    throw gr::bad_flag("--epochs must be at most " + std::to_string(most_steps / static_cast<double>(steps_an_epoch)) +
                       " with these data, which is " + std::to_string(static_cast<std::uint32_t>(most_steps)) +
                       " steps");
  const long long steps = o.steps > 0 ? o.steps : std::llround(of_epochs);
  const long long eval_every = o.eval_every > 0 ? o.eval_every : steps_an_epoch;

  // The memory, planned to the byte; the model and its optimizer.
  const bert::chosen_memory plan = bert::choose_memory(o);
  bert::device::stream_type stream;
  set_threads(stream, o.threads);
  device_heap heap;
  gr::run_memory<bert::device> memory(stream, heap, plan.plans);
  trainer t(memory.persistent, memory.transient, step_of(o, plan.regions));
  gr::step_report at;
  const gr::run_metadata identity = identity_of(o, data, steps);
  std::string start = "starting from random weights", damage;
  if (!o.resume.empty()) {
    damage = resume(o.resume, memory.persistent, t, o.accumulate, identity, at);
    start = "resumed after step " + std::to_string(at.step);
  } else if (!o.init.empty()) {
    const bool whole = bert::load_huggingface(t.net, memory.persistent, o.init);
    start = "starting from " + o.init + (whole ? "" : ", with a new classifier");
  }

  // The run: its folder, its log, its checkpoints.
  const fs::path folder = o.resume.empty() ? gr::make_run_folder(o.out) : fs::path(o.resume);
  if (!alone) alone = std::make_unique<gr::run_lock>(folder);
  const gr::interrupts<interrupted_at> stop;
  gr::run_reporter report(folder, {.program = "bert_train", .title = "Training a BERT", .unit = "sample"}, at.step);
  report.line(bert::describe_model() + ", " + std::to_string(gr::parameter_count(t.net)) + " parameters");
  report.line(std::to_string(data.train.count()) + " samples to train on, " + std::to_string(data.validation.count()) +
              " for validation; " + std::to_string(steps) + " steps of " + std::to_string(bert::batch_size) + " x " +
              std::to_string(o.accumulate));
  if (!data.first.empty()) report.line("the first row: " + data.first);
  report.line("memory planned: " + gr::format_bytes(plan.total_bytes()) + "; run folder " + folder.string());
  if (!damage.empty()) report.warn(damage + "; an older checkpoint is taken");
  report.line(start);
  constexpr double patience = 60;
  const auto warn = [&](const std::string& what) { report.warn(what); };
  gr::run_saver saver(
      [&] {
        if (const std::string name = gr::find_not_finite(t.net); !name.empty())
          throw diverged("not saved: the parameter " + name + " is no longer finite; try a lower --lr");
      },
      [&] {
        gr::write_checkpoint(gr::checkpoint_path(folder), memory.persistent, t.net, t.optimizer,
                             metadata_of(identity, t, at), gr::older_checkpoint_paths(folder, kept_checkpoints));
      },
      warn, patience);
  saver.set_pace(o.save_seconds, o.save_steps);
  gr::prefetcher batches([&](std::uint64_t number) { return data.train.shuffled_batch(o.seed, number); },
                         {.first = static_cast<std::uint64_t>(at.step * o.accumulate)});

  const gr::stopwatch clock;
  const double before = at.elapsed;
  const long long first = at.step;
  double training_seconds = 0;
  bool updating = false;
  try {
    while (at.step < steps && !stop.noticed()) {
      const gr::stopwatch watch;
      at.lr = o.rate(at.step, steps);
      gpt::set_rate(t.optimizer.options, at.lr);
      for (int i = 0; i < o.accumulate; ++i) {
        t.load(i, batches.next());
        t.backward(i);
      }
      updating = true;
      t.update();
      at.loss = t.send_loss().value();
      updating = false;
      training_seconds += watch.seconds();

      ++at.step;
      at.fraction = static_cast<double>(at.step) / static_cast<double>(steps);
      const auto samples_a_step = static_cast<double>(bert::batch_size) * o.accumulate;
      at.tokens = static_cast<double>(at.step) * samples_a_step;
      at.tokens_per_second = static_cast<double>(at.step - first) * samples_a_step / training_seconds;
      at.validation = std::nan("");
      at.elapsed = before + clock.seconds();
      if (!std::isfinite(at.loss))
        throw diverged("the loss is no longer finite at step " + std::to_string(at.step) + "; try a lower --lr");
      if (at.step % eval_every == 0 || at.step == steps) {
        memory.use(bert::evaluation_plan);
        const std::optional<score> validated = evaluate(t, data.validation, [&] { return stop.noticed(); });
        memory.use(bert::training_plan);
        if (validated) {
          at.validation = validated->loss;
          at.fields = {{"accuracy", validated->accuracy}};
          char line[64];
          std::snprintf(line, sizeof line, "validation accuracy %.4f, loss %.4f", validated->accuracy, validated->loss);
          at.note = line;
        }
        at.elapsed = before + clock.seconds();
      }
      saver.save_if_due(at.step);
      report.step(at);
    }
  } catch (const std::exception& e) {
    // A run that ends for any reason has saved its last whole step, unless the model diverged.
    if (updating || at.step == first || dynamic_cast<const diverged*>(&e) != nullptr) throw;
    report.warn(std::string(e.what()) + "; the run is saved and ends");
    try {
      if (const std::string problem = saver.save(); !problem.empty()) report.warn(problem);
    } catch (const std::exception& problem) { report.warn(problem.what()); }
    throw;
  }

  const std::string unsaved = saver.save();
  const std::string without_model = gr::retry([&] { save_model(t, data, folder / "model"); }, warn, patience);
  for (const std::string& problem : {unsaved, without_model})
    if (!problem.empty()) throw gr::error(problem);
  report.line("saved " + (folder / "model").string() + ", which transformers and --init read; " +
              (at.step < steps
                   ? "to resume it, give the same flags, with --resume " + folder.string() + " in place of --out"
                   : "the run is complete"));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const auto work = [&] {
    const auto o = bert::read_options(argc, argv, bert::compiled_for(),
                                      gpt::usual_rate<decltype(trainer::optimizer_type::options)>());
    if (!o) return 0;
    if (!o->plan) return train(*o);
    bert::print_memory(bert::choose_memory(*o));
    return 0;
  };
  return gr::run_program("bert_train", work, "try a smaller --batch of scripts/train-bert.sh, or --memory-budget");
}
