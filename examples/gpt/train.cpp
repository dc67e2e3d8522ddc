// Trains a GPT on text, as bytes or as tokens. The loop is in train(), the model in model.hpp, a step's arithmetic in
// training.hpp and step.hpp, its memory in memory.cpp, what surrounds the loop (log, checkpoints, validation) in
// run.hpp, the flags in options.cpp.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <utility>

#include <gradus/data/prefetch.hpp>
#include <gradus/train/interrupts.hpp>
#include <gradus/train/program.hpp>
#include <gradus/train/run_memory.hpp>

#include "device.hpp"
#include "memory.hpp"
#include "model_file.hpp"
#include "options.hpp"
#include "run.hpp"
#include "training.hpp"

namespace {

namespace gr = gradus;
using trainer = gpt::training<gpt::device, gpt::sizes, gpt::batch_size, gpt::token, gpt::precision, gpt::optimizer>;

std::atomic<long long> interrupted_at = 0;

int print_plan(const gpt::options& o) {
  const gpt::chosen_memory plan = gpt::choose_memory(o, gpt::machine_flops(o.threads));
  gpt::print_memory(plan);
  gpt::write_report(o.memory_report, plan, nullptr);
  if (!o.memory_report.empty()) std::printf("wrote %s\n", o.memory_report.c_str());
  return 0;
}

/// Reads the checkpoint that was found, or an older one if its tensors are damaged.
void read_checkpoint(gpt::found_checkpoint& from, const gpt::options& o, const gpt::run_data& data,
                     gr::context<gpt::device>& ctx, trainer& t) {
  for (bool read = false; !read;) {
    try {
      gpt::read_settings(t.net, gr::read_checkpoint(from.path, ctx, t.net, t.optimizer));
      read = true;
    } catch (const gr::out_of_memory&) {
      throw;  // not the file's fault
    } catch (const gr::error& e) { gpt::find_older_checkpoint(from, e.what(), o, data); }
  }
  if (!from.damage.empty()) gr::move_damaged_checkpoint(o.resume, from.age);
  t.resume_after(static_cast<std::uint32_t>(from.state.step * o.accumulate), from.state.loss_scale,
                 from.state.clean_steps);
}

int train(const gpt::options& o) {
  // The data, the weights to start from (--init), the checkpoint to resume from (--resume).
  const gpt::starting_model start(o);
  const gpt::run_data data{start.open_data()};
  gpt::found_checkpoint from = gpt::find_checkpoint(o, data);
  const bool resumed = !from.path.empty();

  // The memory, planned to the byte; the model and its optimizer.
  const double machine_flops = gpt::machine_flops(o.threads);
  const gpt::chosen_memory plan = gpt::choose_memory(o, machine_flops);
  gpt::stream stream;
  gpt::set_threads(stream, o.threads);
  gpt::device_heap heap;
  gr::run_memory<gpt::device> memory(stream, heap, plan.plans, !o.memory_report.empty());
  gpt::tune(memory.transient, o.tune_products);
  gpt::tune(memory.persistent, o.tune_products);
  trainer t(memory.persistent, memory.transient, o.step(plan.regions));
  if (resumed) read_checkpoint(from, o, data, memory.persistent, t);
  start.load(t.net, memory.persistent);

  // The run: its folder, its log, its checkpoints. From here on there is something to lose.
  const gr::interrupts<interrupted_at> stop;
  const gpt::run_facts facts{gr::parameter_count(t.net),  machine_flops, gpt::machine_name(stream),
                             gpt::thread_note(o.threads), start.text(),  resumed};
  gpt::run run(o, data, plan, memory, t, std::move(from), facts, [&] { return stop.noticed(); });
  gpt::run_state& at = run.state;
  gpt::step_observers observers(o, memory, trainer::scales_loss);
  gpt::step_graph graph(memory.transient, t.tape(), t.optimizer);
  gr::prefetcher batches([&](std::uint64_t number) { return data.batch(o, number); },
                         {.first = static_cast<std::uint64_t>(at.step * o.accumulate),
                          .workers = static_cast<std::size_t>(o.workers),
                          .ahead = static_cast<std::size_t>(std::max(2 * o.workers, 1))});

  bool finished = false;
  try {
    while (!finished && !stop.noticed()) {
      const gr::stopwatch watch;
      at.lr = o.rate(at.step, o.fraction(at.step, run.elapsed()));
      gpt::set_rate(t.optimizer.options, at.lr);
      const bool observed = observers.begin(at.step + 1);
      const bool as_graph = o.graph && !observed;

      int i = 0;
      for (; i < o.accumulate && (i == 0 || !stop.noticed()); ++i) {
        const auto batch = batches.next();
        t.load(i, batch.inputs.data(), batch.targets.data());
        if (!as_graph) t.backward(i);
      }
      if (i < o.accumulate) break;  // asked to end within a step
      run.begin_update();
      if (as_graph) graph.run([&] { t.step(); });  // backward of all batches, and the update
      else t.update();
      run.end_update(t.send_loss(), watch.seconds());
      if (const gr::step_trace* trace = observers.end(watch.seconds())) run.report_memory(*trace);

      run.validate_if_due();
      if (stop.noticed()) break;
      run.save_and_show();
      finished = at.fraction >= 1;
    }
  } catch (const std::exception& e) {
    run.save_after(e);
    throw;
  }

  if (!finished) run.end_early();  // Ctrl-C: drops an unfinished step, saves, validates
  run.end(gpt::peak_mib(heap));
  if (o.profile) run.report_profile(observers.profile, {machine_flops, gpt::machine_bandwidth(o.threads)});
  run.print_closing_sample(finished);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const auto work = [&] {
    const auto o = gpt::read_options(argc, argv);
    if (!o) return 0;
    gpt::use_gpu(o->gpu);
    return o->plan ? print_plan(*o) : train(*o);
  };
  return gr::run_program("gpt_train", work, "try a smaller --batch of scripts/train.sh, or --memory-budget");
}
