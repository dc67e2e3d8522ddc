// Trains a BERT, or another encoder, to classify texts or to make sentence embeddings. The loop is in train(), the
// model in model.hpp, a step's arithmetic in training.hpp and gradus/train/model_training.hpp, its memory in
// memory.cpp, the data in data.cpp, the flags in options.cpp. Log, checkpoints and the end are gr::run's
// (gradus/run/run.hpp).

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <gradus/core/byte_size.hpp>
#include <gradus/cpu/processors.hpp>
#include <gradus/data/prefetch.hpp>
#include <gradus/run/interrupts.hpp>
#include <gradus/run/program.hpp>
#include <gradus/run/resumable.hpp>
#include <gradus/run/run.hpp>
#include <gradus/run/run_memory.hpp>

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

/// The loss of one choice, in nats, and whether it is the likeliest.
std::array<double, 2> score_of(const std::vector<double>& logits, std::size_t right) {
  const auto best = std::ranges::max_element(logits);
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit - *best);
  return {std::log(sum) + *best - logits[right],
          best - logits.begin() == static_cast<std::ptrdiff_t>(right) ? 1.0 : 0.0};
}
/// The cosine of two vectors.
double cosine(std::span<const double> a, std::span<const double> b) {
  const auto dot = [](auto x, auto y) { return std::inner_product(x.begin(), x.end(), y.begin(), 0.0); };
  return dot(a, b) / std::sqrt(std::max(dot(a, a) * dot(b, b), 1e-24));
}

/// On all samples of `data`: the loss, and the accuracy or, of numbers, the correlation; nothing if the run was asked
/// to end.
std::optional<gr::validation> validate(gr::run& run, trainer& t, gr::run_memory<bert::device>& memory,
                                       const bert::samples& data) {
  constexpr bert::config c = bert::sizes;
  constexpr std::size_t columns = c.embeds() ? c.width : c.labels;
  memory.use(bert::evaluation_plan);
  const auto means = run.mean(data.batches(), [&](std::size_t number) {
    std::array<double, 6> sums{};
    const auto add = [&](const auto& some) { std::ranges::transform(sums, some, sums.begin(), std::plus<>()); };
    const bert::host_batch batch = data.batch(number);
    const auto found = gr::to_host(t.evaluate(batch));
    const auto row = [&](std::size_t i) {
      std::vector<double> values;
      for (std::size_t k = 0; k < columns; ++k) values.push_back(static_cast<double>(found[i * columns + k]));
      return values;
    };
    for (std::size_t i = 0; i < bert::batch_size && !std::isnan(batch.scores[i]); ++i) {
      if (c.scores()) {
        const double x = c.embeds() ? cosine(row(i), row(bert::batch_size + i)) : row(i)[0];
        const auto y = static_cast<double>(batch.scores[i]);
        add(std::array{(x - y) * (x - y), x, y, x * x, y * y, x * y});
      } else {
        std::vector<double> logits;
        if (!c.embeds()) logits = row(i);
        for (std::size_t k = 0; c.embeds() && k < bert::batch_size && batch.labels[k] >= 0; ++k)
          logits.push_back(cosine(row(i), row(bert::batch_size + k)) * bert::similarity_scale);
        add(score_of(logits, static_cast<std::size_t>(batch.labels[i])));
      }
    }
    return sums;
  });
  memory.use(bert::training_plan);
  if (!means) return std::nullopt;
  auto m = *means;
  for (double& mean : m) mean *= static_cast<double>(data.batches()) / static_cast<double>(data.count());
  const double spread = (m[3] - m[1] * m[1]) * (m[4] - m[2] * m[2]);
  const double value = !c.scores() ? m[1] : spread > 0 ? (m[5] - m[1] * m[2]) / std::sqrt(spread) : 0;
  const char* const name = c.scores() ? "correlation" : "accuracy";
  char note[80];
  std::snprintf(note, sizeof note, "validation %s %.4f, loss %.4f", name, value, m[0]);
  return gr::validation{.loss = m[0], .fields = {{name, value}}, .note = note};
}

/// What must be the same for a run to be resumed.
gr::run_metadata identity_of(const bert::options& o, const bert::run_data& data) {
  gr::run_metadata about;
  for (const auto& [name, value] : bert::kind_flags(bert::sizes)) about.set(name, std::string_view(value));
  for (const auto& [name, member] : bert::size_flags) about.set(name, bert::sizes.*member);
  about.set("length", bert::sequence_length);
  about.set("batch", bert::batch_size);
  about.set("precision", std::string_view(bert::precision_name));
  about.set("optimizer", std::string_view(bert::optimizer_name));
  about.set("accumulate", o.accumulate);
  about.set("seed", o.seed);
  about.set("data", data.identity());
  return about;
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
    on_host.apply(t.net.settings());
    bert::save_huggingface(on_host, folder, data.labels);
  } else {
    bert::save_huggingface(t.net, folder, data.labels);
  }
  if (data.tokenizer) bert::save_tokenizer(*data.tokenizer, folder);
}

/// The trainer as a run saves it: its model is a folder.
struct saved_training final : gr::resumable_training<trainer> {
  const bert::run_data& data;
  saved_training(trainer& t, const bert::run_data& of) : gr::resumable_training<trainer>(t), data(of) {}
  void write_model(const fs::path& folder, const std::function<void()>&) override { save_model(t_, data, folder); }
};

long long steps_of(const bert::options& o, long long steps_an_epoch) {
  if (o.steps > 0) return o.steps;
  const double all = std::ceil(o.epochs * static_cast<double>(steps_an_epoch));
  constexpr double most = std::numeric_limits<std::uint32_t>::max();  // the step is part of random keys
  if (all > most)
    throw gr::bad_flag("--epochs must be at most " + std::to_string(most / static_cast<double>(steps_an_epoch)) +
                       " with these data, which is " + std::to_string(static_cast<std::uint32_t>(most)) + " steps");
  return std::llround(all);
}

gr::run_options run_of(const bert::options& o, long long steps, long long steps_an_epoch) {
  gr::run_options run;
  run.names = {.program = "bert_train", .title = "Training a BERT", .unit = "sample"};
  run.out = o.out;
  run.resume = o.resume;
  run.steps = steps;
  run.rate = [&o, steps](long long step, double) { return o.rate(step, steps); };
  run.units_per_step = static_cast<double>(bert::batch_size) * o.accumulate;
  run.eval_every = o.eval_every > 0 ? o.eval_every : steps_an_epoch;
  run.save_seconds = o.save_seconds;
  run.save_steps = o.save_steps;
  run.save_retry = 60;
  return run;
}

/// The model's settings: of the folder that it starts from, unless the flags say otherwise.
bert::settings settings_of(const bert::options& o, const bert::description& init) {
  bert::settings s = init.settings;
  if (o.init.empty()) s.epsilon = bert::facts_of(bert::sizes.family).epsilon;
  if (o.epsilon > 0) s.epsilon = o.epsilon;
  if (!o.pooling.empty()) s.pooling = o.pooling == "cls" ? bert::pooling::cls : bert::pooling::mean;
  s.normalized = s.normalized || o.normalize;
  return s;
}
bert::description init_of(const bert::options& o) {
  return o.init.empty() ? bert::description{} : bert::describe(o.init, bert::sizes.embeds());
}

/// Prints the sentence embeddings of a file's lines.
void embed(const bert::options& o) {
  bert::device::stream_type stream;
  set_threads(stream, o.threads);
  device_heap heap;
  gr::context<bert::device> ctx{stream, heap};
  bert::model<gr::on<bert::device, bert::precision>, bert::sizes> net;
  bert::load_huggingface(net, ctx, o.init);
  net.apply(settings_of(o, init_of(o)));
  constexpr gr::index_t rows = bert::sizes.texts() * bert::batch_size, width = bert::sizes.width;
  const bert::text_batches texts = bert::read_texts(o.embed, o.files.tokenizer);
  bert::loaded_sequences<bert::device, bert::sizes, rows, bert::sequence_length> batch(ctx);
  for (gr::index_t done = 0; done < texts.count; done += rows) {
    batch.load(texts.batches[done / rows]);
    const auto found = gr::to_host(net(batch));
    for (gr::index_t i = 0; i < std::min(texts.count - done, rows) * width; ++i)
      std::printf("%.9g%c", static_cast<double>(found[i]), (i + 1) % width == 0 ? '\n' : ' ');
  }
}

void train(const bert::options& o) {
  bert::text_files files = o.files;
  const bert::description init = init_of(o);
  files.label_names = init.labels;
  if (files.label_names.size() != bert::sizes.labels) files.label_names.clear();  // for a new classifier
  const bert::run_data data = o.dummy ? bert::dummy_data(512, o.seed) : bert::read_data(files);
  const auto steps_an_epoch = std::max<long long>(1, static_cast<long long>(data.train.batches()) / o.accumulate);
  const long long steps = steps_of(o, steps_an_epoch);
  const gr::interrupts<interrupted_at> watched;
  gr::run run(run_of(o, steps, steps_an_epoch), identity_of(o, data), [] { return interrupted_at != 0; });

  // The memory, planned to the byte; the model and its optimizer.
  const bert::chosen_memory plan = bert::choose_memory(o);
  bert::device::stream_type stream;
  set_threads(stream, o.threads);
  device_heap heap;
  gr::run_memory<bert::device> memory(stream, heap, plan.plans);
  trainer t(memory.persistent, memory.transient, step_of(o, plan.regions));
  std::string start = "starting from random weights";
  if (!run.resumed() && !o.init.empty())
    start =
        "starting from " + o.init +
        (bert::load_huggingface(t.net, memory.persistent, o.init) || bert::sizes.embeds() ? "" : ", with a new head");
  t.net.apply(settings_of(o, init));
  saved_training saved(t, data);
  run.begin(saved);
  run.line(bert::describe_model() + ", " + std::to_string(gr::parameter_count(t.net)) + " parameters");
  run.line(std::to_string(data.train.count()) + " samples to train on, " + std::to_string(data.validation.count()) +
           " for validation; " + std::to_string(steps) + " steps of " + std::to_string(bert::batch_size) + " x " +
           std::to_string(o.accumulate));
  if (!data.first.empty()) run.line("the first row: " + data.first);
  for (const std::string& of_file : data.notes) run.line(of_file);
  run.line("memory planned: " + gr::format_bytes(plan.total_bytes()) + "; run folder " + run.folder().string());
  if (!run.resumed()) run.line(start);

  gr::prefetcher batches([&](std::uint64_t number) { return data.train.shuffled_batch(o.seed, number); },
                         {.first = static_cast<std::uint64_t>(run.state.step * o.accumulate)});
  try {
    while (run.next()) {
      gr::set_rate(t.optimizer.options, run.rate());
      for (int i = 0; i < o.accumulate; ++i) t.load(i, batches.next());
      if (!gr::take_step(
              t, [] { return interrupted_at != 0; }, [&] { run.wait_for_checkpoint(); }))
        break;  // asked to end within a step
      const auto loss = t.send_loss();
      run.step_done({.loss = loss.value(), .norm = loss.norm()});
      if (run.due()) run.validated(validate(run, t, memory, data.validation));
      run.save_and_show();
    }
    run.end_steps();
  } catch (const std::exception& e) {
    run.save_after(e);
    throw;
  }
  run.end();
  run.line(run.over()
               ? "the run is complete"
               : "to resume it, give the same flags, with --resume " + run.folder().string() + " in place of --out");
}

}  // namespace

int main(int argc, char** argv) {
  const auto work = [&] {
    const auto o = bert::read_options(argc, argv, bert::compiled_for(),
                                      gr::usual_rate<decltype(trainer::optimizer_type::options)>());
    if (!o) return 0;
    if (!o->embed.empty()) embed(*o);
    else if (o->plan) bert::print_memory(bert::choose_memory(*o));
    else train(*o);
    return 0;
  };
  return gr::run_program("bert_train", work, "try a smaller --batch of scripts/train-bert.sh, or --memory-budget");
}
