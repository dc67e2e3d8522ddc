// Trains a GPT on text, as bytes or as tokens. The loop is in train(), the model in model.hpp, a step's arithmetic in
// training.hpp and gradus/train/model_training.hpp, its memory in memory.cpp, the data in text_data.hpp, the flags in
// options.cpp. Log, checkpoints and the end are gr::run's (gradus/run/run.hpp). Every rank runs all of this.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <string_view>

#include <gradus/data/prefetch.hpp>
#include <gradus/run/interrupts.hpp>
#include <gradus/run/program.hpp>

#include "device.hpp"
#include "memory.hpp"
#include "model_file.hpp"
#include "options.hpp"
#include "reports.hpp"
#include "run_parts.hpp"
#include "starting_model.hpp"
#include "text_data.hpp"
#include "trainer.hpp"

namespace {

namespace gr = gradus;
using trainer = gpt::trainer_on<gpt::device>;

std::atomic<long long> interrupted_at = 0;

int print_plan(const gpt::options& o) {
  const double machine_flops = gpt::machine_flops(o.threads);
  const gr::host_link link = gpt::link_for(o);
  const int count = std::max(o.ranks, 1);
  for (int rank = 0; rank < count; ++rank) {
    const gpt::options of_rank = o.of_rank(rank, count);
    const gpt::chosen_memory plan = gpt::choose_memory(of_rank, machine_flops, link);
    if (rank == 0) {
      gpt::print_memory(plan);
      gpt::write_report(o.memory_report, plan, nullptr);
    }
    if (count > 1) gpt::print_rank(of_rank, plan);
  }
  if (!o.memory_report.empty()) std::printf("wrote %s\n", o.memory_report.c_str());
  return 0;
}

// Memory that is short here is not a step's, which --batch would change.
auto open_data(const gpt::starting_model& start) {
  try {
    return start.open_data();
  } catch (const std::bad_alloc&) {
    throw gr::error(
        "--data: no memory to read it; scripts/gradus.sh tokens makes shards of texts, which stay on the disk");
  }
}

void train(const gpt::options& o, gr::team& team) {
  // The data, and the weights to start from (--init).
  gpt::starting_model start(o);
  gpt::run_data data{open_data(start)};
  if ((o.sample_every > 0 || !o.sample_prompts.empty()) && !data.readable())
    throw gr::bad_flag((o.sample_every > 0 ? "--sample-every" : "--sample-prompt") +
                       std::string(": the data's tokens cannot be shown as text: name their --tokenizer"));
  const gr::run_metadata identity = gpt::identity_of(o, data);
  team.check_same(gpt::shared_settings(o, identity));

  // The memory, planned to the byte; the run, which finds the checkpoint to resume; the model and its optimizer.
  const double machine_flops = team.from_leader(gpt::machine_flops(o.threads));
  const gpt::chosen_memory plan = gpt::choose_memory(o, machine_flops, team.from_leader(gpt::link_for(o)));
  const auto stopped = [] { return interrupted_at != 0; };
  gr::run run(gpt::run_of(o, data, plan, machine_flops, start.text_settings(data.tokenizer())), identity, team,
              stopped);
  gpt::stream stream;
  gpt::set_threads(stream, o.threads);
  gpt::device_heap heap;
  gpt::offload_file file(o.offload);
  gpt::memory memory(stream, heap, plan.plans, !o.memory_report.empty());
  gpt::tune(memory.transient, o.tune_products);
  gpt::tune(memory.persistent, o.tune_products);
  const auto ranks = gpt::connect(team, memory.persistent);
  trainer t(memory.persistent, memory.transient, step_of(o, plan.regions, plan.group_order), ranks.get());
  gpt::set_beta(t, o.dpo);
  file.keep_states(t, stream);
  file.keep_results(memory.transient);
  start.load(t.net, memory.persistent, [&](auto& p) { t.take_value(p); });

  // From here on there is something to lose.
  std::optional<gr::interrupts<interrupted_at>> watched;
  if (team.is_first_of_process()) watched.emplace();
  gpt::saved_training saved(memory, t, start);
  run.begin(saved);
  gpt::report_start(run, o, plan, data, gpt::machine_name(stream), gpt::thread_note(o.threads), start.text());

  gpt::step_observers observers(o, memory, trainer::scales_loss);
  gpt::step_graph graph(memory.transient, t.tape(), t.optimizer);
  const auto here = static_cast<std::uint64_t>(o.batches_here()), all = static_cast<std::uint64_t>(o.accumulate);
  const auto make_batch = [&](std::uint64_t i) {
    return data.batch(o, i / here * all + static_cast<std::uint64_t>(t.number_of(static_cast<int>(i % here))));
  };
  gr::prefetcher batches(make_batch, {.first = static_cast<std::uint64_t>(run.state.step) * here,
                                      .workers = static_cast<std::size_t>(o.workers),
                                      .ahead = static_cast<std::size_t>(std::max(2 * o.workers, 1))});
  long long spikes = t.spikes.spikes;
  try {
    while (run.next()) {
      gr::set_rate(t.optimizer.options, run.rate());
      const bool observed = observers.begin(run.state.step + 1);
      for (int i = 0; i < o.batches_here(); ++i) t.load(i, batches.next());
      for (std::uint64_t i = 0; gpt::packed && i < all; ++i)
        t.set_share(static_cast<int>(i), data.share(static_cast<std::uint64_t>(run.state.step) * all + i));

      // Forward and backward of each batch; then the gradients are clipped and the optimizer takes its step.
      if (o.graph && !observed) {
        run.wait_for_checkpoint();
        graph.run([&] { gr::take_step(t); });
      } else if (!gr::take_step(
                     t, [&] { return team.size() == 1 && stopped(); }, [&] { run.wait_for_checkpoint(); })) {
        break;  // asked to end within a step
      }
      run.step_done([loss = t.send_loss()] { return gr::step_figures{.loss = loss.value(), .norm = loss.norm()}; });
      gpt::report_spike(run, t, spikes);
      observers.end(run, plan);
      if (o.anomaly && !t.shares_parameters()) run.check_parameters();

      if (run.due())
        run.validated(gpt::validate(t, memory, data, run.over() ? gpt::last_validation : gpt::a_validation, run));
      run.save_and_show();
      gpt::print_samples_if_due(run, o, memory, t, data, stopped);
    }
    run.end_steps();
    if (std::isnan(run.state.validation)) run.validated(gpt::validate(t, memory, data, gpt::a_validation, run));
  } catch (const std::exception& e) {
    run.save_after(e);
    throw;
  }
  run.end();
  gpt::report_end(run, plan, data, gpt::peak_mib(heap));
  if (trainer::scales_loss)
    run.line(gpt::line(
        "loss scale %g at the end; updates skipped where gradients overflowed: %zu", t.loss_scale(),
        static_cast<std::size_t>(run.state.step) - t.optimizer.steps() - static_cast<std::size_t>(t.spikes.spikes)));
  if (o.profile) gpt::report_profile(run, observers.profile, {machine_flops, gpt::machine_bandwidth(o.threads)});
  gpt::print_closing_samples(run, o, memory, t, data, stopped);
}

}  // namespace

int main(int argc, char** argv) {
  const auto work = [&] {
    const auto o = gpt::read_options(argc, argv, gpt::compiled_for(),
                                     gr::usual_rate<decltype(trainer::optimizer_type::options)>());
    if (!o) return 0;
    if ((o->dpo > 0) != gpt::preferences)
      throw gr::bad_flag(std::string("--dpo: this program was compiled ") + (gpt::preferences ? "for" : "without") +
                         " preferences; scripts/train.sh compiles another");
    gpt::use_gpu(o->gpu);
    if (o->plan) return print_plan(*o);
    return gpt::on_ranks(o->ranks, [&](gr::team& team) {
      if (team.size() > 1) gpt::use_gpu(team.on_node());
      gpt::options of_rank = o->of_rank(team.rank(), team.size());
      of_rank.threads = team.threads_of_rank(of_rank.threads);
      train(of_rank, team);
    });
  };
  const auto work_on_disk = [&] {
    try {
      return work();
    } catch (const gr::out_of_memory& e) {  // of a file's memory, of which a smaller batch needs no less
      if (std::string_view(e.what()).find("no room on the disk") == std::string_view::npos) throw;
      throw gr::error(std::string("--offload: ") + e.what());
    }
  };
  return gr::run_program("gpt_train", work_on_disk, "try a smaller --batch of scripts/train.sh, or --memory-budget");
}
