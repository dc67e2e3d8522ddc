// Trains a GPT on text, as bytes or as tokens. The loop is in train(), the model in model.hpp, a step's arithmetic in
// training.hpp and step.hpp, its memory in memory.cpp, what surrounds the loop (log, checkpoints, validation) in
// run.hpp, the flags in options.cpp. Ranks that share the work are in ranks.hpp; each runs all of this.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <optional>
#include <utility>

#include <gradus/data/prefetch.hpp>
#include <gradus/run/interrupts.hpp>
#include <gradus/run/program.hpp>
#include <gradus/run/run_memory.hpp>

#include "device.hpp"
#include "memory.hpp"
#include "model_file.hpp"
#include "options.hpp"
#include "ranks.hpp"
#include "run.hpp"
#include "training.hpp"

namespace {

namespace gr = gradus;
using trainer = gpt::training<gpt::device, gpt::sizes, gpt::batch_size, gpt::token, gpt::precision, gpt::optimizer>;

std::atomic<long long> interrupted_at = 0;

int print_plan(const gpt::options& o) {
  const double machine_flops = gpt::machine_flops(o.threads);
  const int count = std::max(o.ranks, 1);
  for (int rank = 0; rank < count; ++rank) {
    const gpt::options of_rank = o.of_rank(rank, count);
    const gpt::chosen_memory plan = gpt::choose_memory(of_rank, machine_flops);
    if (rank == 0) {
      gpt::print_memory(plan);
      gpt::write_report(o.memory_report, plan, nullptr);
    }
    if (count > 1) gpt::print_rank(of_rank, plan);
  }
  if (!o.memory_report.empty()) std::printf("wrote %s\n", o.memory_report.c_str());
  return 0;
}

/// Reads the checkpoint that was found, or an older one if its tensors are damaged.
void read_checkpoint(gpt::found_checkpoint& from, const gpt::options& o, const gpt::run_data& data,
                     gr::context<gpt::device>& ctx, trainer& t, gpt::rank_team& team) {
  // Each rank reads for itself; an error of one is thrown on all.
  const auto read_alone = [&] {
    if (team.size() == 1) return gr::read_checkpoint(from.path, ctx, t.net, t.optimizer);
    gr::run_metadata metadata;
    gr::try_together(ctx, team.trained(), [&] { metadata = gr::read_checkpoint(from.path, ctx, t.net, t.optimizer); });
    return metadata;
  };
  for (bool read = false; !read;) {
    from.path = team.from_leader(from.path.string());
    from.age = team.from_leader(from.age);
    if (!team.leads()) from.state = gpt::state_of_checkpoint(from.path);
    try {
      gpt::read_settings(
          t.net, t.shares_states() ? gr::read_checkpoint(from.path, ctx, t.net, t.optimizer, t.pieces(), team.trained())
                                   : read_alone());
      read = true;
    } catch (const gr::out_of_memory&) {
      throw;  // not the file's fault
    } catch (const gr::rank_failed&) { throw; } catch (const gr::error& e) {
      team.on_leader([&] { gpt::find_older_checkpoint(from, e.what(), o, data); });
    }
  }
  if (team.leads() && !from.damage.empty()) gr::move_damaged_checkpoint(o.resume, from.age);
  t.resume_after(static_cast<std::uint32_t>(from.state.step * o.accumulate), from.state.loss_scale,
                 from.state.clean_steps);
}

void train(const gpt::options& o, gpt::rank_team& team) {
  // The data, the weights to start from (--init), the checkpoint to resume from (--resume).
  const gpt::starting_model start(o);
  const gpt::run_data data{start.open_data()};
  team.check_same(gpt::shared_settings(o, data));
  gpt::found_checkpoint from;
  team.on_leader([&] { from = gpt::find_checkpoint(o, data); });
  const bool resumed = team.from_leader(!from.path.empty());

  // The memory, planned to the byte; the model and its optimizer.
  const double machine_flops = team.from_leader(gpt::machine_flops(o.threads));
  const gpt::chosen_memory plan = gpt::choose_memory(o, machine_flops);
  gpt::stream stream;
  gpt::set_threads(stream, o.threads);
  gpt::device_heap heap;
  gr::run_memory<gpt::device> memory(stream, heap, plan.plans, !o.memory_report.empty());
  gpt::tune(memory.transient, o.tune_products);
  gpt::tune(memory.persistent, o.tune_products);
  const auto connected = team.connect(memory.persistent);
  trainer t(memory.persistent, memory.transient, step_of(o, plan.regions, plan.group_order), &team.trained());
  if (resumed) read_checkpoint(from, o, data, memory.persistent, t, team);
  start.load(t.net, memory.persistent, [&](auto& p) { t.take_value(p); });

  // From here on there is something to lose.
  std::optional<gr::interrupts<interrupted_at>> watched;
  if (team.is_first_of_process()) watched.emplace();
  const auto stopped = [] { return interrupted_at != 0; };

  const gpt::run_facts facts{gr::parameter_count(t.net),  machine_flops, gpt::machine_name(stream),
                             gpt::thread_note(o.threads), start.text(),  resumed};
  gpt::run run(o, data, plan, memory, t, team, std::move(from), facts, stopped);
  gpt::step_observers observers(o, memory, trainer::scales_loss);
  gpt::step_graph graph(memory.transient, t.tape(), t.optimizer);
  const auto here = static_cast<std::uint64_t>(o.batches_here()), all = static_cast<std::uint64_t>(o.accumulate);
  const auto make_batch = [&](std::uint64_t i) {
    return data.batch(o, i / here * all + static_cast<std::uint64_t>(t.number_of(static_cast<int>(i % here))));
  };
  gr::prefetcher batches(make_batch, {.first = static_cast<std::uint64_t>(run.state.step) * here,
                                      .workers = static_cast<std::size_t>(o.workers),
                                      .ahead = static_cast<std::size_t>(std::max(2 * o.workers, 1))});
  try {
    while (run.next()) {
      const gr::stopwatch watch;
      gpt::set_rate(t.optimizer.options, run.state.lr = run.next_rate());
      const bool observed = observers.begin(run.state.step + 1);
      const bool as_graph = o.graph && !observed;

      int i = 0;
      for (; i < o.batches_here() && (i == 0 || team.size() > 1 || !stopped()); ++i) {
        const auto batch = batches.next();
        t.load(i, batch.inputs.data(), batch.targets.data());
        if (!as_graph) t.backward(i);
      }
      if (i < o.batches_here()) break;  // asked to end within a step
      run.begin_update();
      if (as_graph) graph.run([&] { t.step(); });  // backward of all batches, and the update
      else t.update();
      run.end_update(t.send_loss(), watch.seconds());
      if (const gr::step_trace* trace = observers.end(watch.seconds())) run.report_memory(*trace);

      run.validate_if_due();
      run.save_and_show();
    }
  } catch (const std::exception& e) {
    run.save_after(e);
    throw;
  }
  const bool finished = run.end_steps();
  run.end(gpt::peak_mib(heap));
  if (o.profile) run.report_profile(observers.profile, {machine_flops, gpt::machine_bandwidth(o.threads)});
  run.print_closing_sample(finished);
}

}  // namespace

int main(int argc, char** argv) {
  const auto work = [&] {
    const auto o = gpt::read_options(argc, argv, gpt::compiled_for(),
                                     gpt::usual_rate<decltype(trainer::optimizer_type::options)>());
    if (!o) return 0;
    gpt::use_gpu(o->gpu);
    if (o->plan) return print_plan(*o);
    return gpt::on_ranks(o->ranks, [&](gpt::rank_team& team) {
      if (team.size() > 1) gpt::use_gpu(team.gpu());
      gpt::options of_rank = o->of_rank(team.rank(), team.size());
      of_rank.threads = team.threads_of_rank(of_rank.threads);
      train(of_rank, team);
    });
  };
  return gr::run_program("gpt_train", work, "try a smaller --batch of scripts/train.sh, or --memory-budget");
}
