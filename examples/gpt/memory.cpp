#include "memory.hpp"

#include <gradus/io/atomic_file.hpp>
#include <gradus/planning.hpp>
#include <gradus/report/curve_svg.hpp>
#include <gradus/report/memory_report.hpp>
#include <gradus/report/perfetto.hpp>
#include <gradus/report/progress.hpp>
#include <gradus/run/program.hpp>

#include "model_file.hpp"
#include "trainer.hpp"

namespace gpt {

namespace {

using gr::bad_flag;
using planned = trainer_on<planned_device>;

gr::region_schedule regions_for(const std::string& checkpoint, const gr::training_options& step) {
  if (checkpoint == "none") return {};
  if (checkpoint == "blocks") return gr::region_schedule::every_block(sizes.layers);
  const auto blocks = gr::survey_blocks<planned>(step);
  if (checkpoint == "attention") return gr::every_block(blocks, gr::save_all_but<gr::op::attention>{});
  if (checkpoint == "matmul") return gr::every_block(blocks, gr::save_only<gr::op::matmul>{});
  try {
    if (checkpoint.starts_with("offload:"))
      return gr::every_block(blocks, gr::offload(gr::save_listed{.names = listed_operations(checkpoint)}));
    return gr::every_block(
        blocks, gr::save_listed{.names = listed_operations(checkpoint), .all_but = checkpoint.starts_with("drop:")});
  } catch (const gr::error& e) { throw bad_flag(std::string("--checkpoint: ") + e.what()); }
}

// The plan of validation, which saves nothing for backward, so the recompute schedule does not matter.
gr::memory_plan evaluation(const gr::training_options& step) {
  return gr::make_plan(gr::trace<planned>([](planned& t) { t.evaluate(); }, step));
}

// The bytes of optimizer states before a step, which trace and plan have as optimizer_state.
std::size_t& states_in(gr::step_trace& trace) {
  return trace.live_before_by[static_cast<std::size_t>(gr::category::optimizer_state)];
}
// Of states in a file, what an update has in memory: two parts, of gr::file_parts' size. `owners` divide the states.
std::size_t resident_states(std::size_t bytes, int owners, const gr::training_options& step) {
  const std::size_t of_a_value = bytes * static_cast<std::size_t>(owners) / trained_parameters(step) + 1;
  return std::min(bytes, of_a_value * 2 << 20);
}

// The memory of a recompute schedule, with an address for every block; the optimizer's states are in a file, or not.
chosen_memory plan_memory(gr::training_options step, gr::region_schedule regions, bool in_file) {
  chosen_memory m;
  step.regions = regions;
  m.regions = std::move(regions);
  if (step.shard == gr::sharding::parameters) {  // the next group is gathered while one is used: learn their order
    gr::training_options learning = step;
    learning.learned_order = &m.group_order;
    gr::trace_step<planned>(learning);
    step.group_order = m.group_order;
  }
  m.step = gr::trace_step<planned>(step);
  if (in_file) {
    m.file_bytes = std::exchange(states_in(m.step), 0);
    m.step.live_before -= m.file_bytes;
    m.resident_bytes = resident_states(m.file_bytes, step.shard == gr::sharding::nothing ? 1 : step.ranks, step);
  }
  m.plan = gr::summarize(m.step);
  gr::placement where = gr::place(m.step);
  m.plans.push_back(gr::make_plan(m.step, where));
  m.plans.push_back(evaluation(step));
  if (step.shard == gr::sharding::parameters)
    m.plans.push_back(gr::make_plan(gr::trace<planned>([](planned& t) { t.read_values(); }, step)));
  m.offsets = std::move(where.offsets);
  for (const gr::memory_plan& p : m.plans) m.workspace_bytes = std::max(m.workspace_bytes, p.bytes);
  return m;
}

// The memory of the rank that needs the most: each keeps another part of what is sharded.
std::size_t most_of_ranks(gr::training_options step, const gr::region_schedule& regions, bool in_file) {
  std::size_t most = 0;
  for (step.rank = 0; step.rank < step.ranks; ++step.rank)
    most = std::max(most, plan_memory(step, regions, in_file).total_bytes());
  return most;
}

// The bytes in memory after each request and each end of a block.
gr::curve live_bytes(const std::string& name, const std::string& color, const gr::step_trace& step) {
  gr::curve drawn{name, color, {0}, {mib(step.live_before)}};
  std::size_t live = step.live_before;
  for (const gr::memory_event& e : step.events) {
    live = e.begins ? live + step.blocks[e.block].bytes : live - step.blocks[e.block].bytes;
    drawn.x.push_back(static_cast<double>(drawn.x.size()));
    drawn.y.push_back(mib(live));
  }
  return drawn;
}

}  // namespace

gr::training_options step_of(const options& o, gr::region_schedule regions, std::vector<std::size_t> group_order) {
  return {.dropout = o.dropout,
          .clip = o.clip,
          .skip_spikes = o.skip_spikes,
          .accumulate = o.accumulate,
          .seed = o.seed,
          .adamw = {.lr = o.lr, .weight_decay = o.weight_decay},
          .regions = std::move(regions),
          .adapted_layers = adapter_rank > 0 ? adapted_layers(o.lora_on) : std::vector<std::string>(),
          .adapter = {.alpha = o.lora_alpha, .rank_stabilized = o.rslora, .dropout = o.lora_dropout},
          .ranks = o.ranks,
          .rank = o.rank,
          .leaves = o.leaves,
          .shard = o.shard == "states"       ? gr::sharding::states
                   : o.shard == "gradients"  ? gr::sharding::gradients
                   : o.shard == "parameters" ? gr::sharding::parameters
                                             : gr::sharding::nothing,
          .order = o.sums == "fastest" ? gr::sum_order::fastest : gr::sum_order::tree,
          .group_order = std::move(group_order)};
}

std::size_t trained_parameters(const gr::training_options& step) {
  network net;
  gr::nn::add_adapters(net, [&](std::string_view name) {
    return std::ranges::find(step.adapted_layers, name) != step.adapted_layers.end();
  });
  std::size_t count = 0;
  gr::visit_trained(net, [&](const auto& p) { count += p.size(); });
  return count;
}

chosen_memory choose_memory(const options& o, double machine_flops, const gr::host_link& link) {
  const gr::training_options step = step_of(o);
  // All ranks recompute the same, so that their gradients become complete in the same order.
  gr::training_options of_first = step;
  of_first.rank = 0;
  const gr::time_table times{machine_flops, on_gpu ? 1.5e12 : 10e9, link};
  const bool in_file = !o.offload.empty();
  if (o.memory_budget.empty()) {
    chosen_memory m = plan_memory(step, regions_for(o.checkpoint, of_first), in_file);
    m.step_seconds = times.seconds(m.step);
    m.description = "checkpoint: " + o.checkpoint;
    return m;
  }
  const std::size_t budget = gr::parse_bytes(o.memory_budget);
  const gr::recompute_scheduler<planned, gr::training_options> search(of_first, times);
  // The search takes states in a file for states in memory.
  const chosen_memory plain = plan_memory(of_first, {}, in_file);
  const std::size_t elsewhere = plain.file_bytes - plain.resident_bytes;
  const std::size_t others = search.worth_having().front().summary.persistent_bytes + evaluation(of_first).bytes;
  // The search plans rank 0, and does not know the order of groups, which depends on the schedule. What any rank takes
  // beyond the budget is saved in the next search.
  std::optional<gr::scheduled_step> chosen;
  for (std::size_t aim = budget + elsewhere; aim >= others;) {
    chosen = search.find_within(aim);
    const std::size_t needed = chosen ? most_of_ranks(step, chosen->regions, in_file) : 0;
    if (needed <= budget) break;
    chosen.reset();
    aim -= std::min(aim, needed - budget);
  }
  if (!chosen) {
    std::size_t least = std::max(others, search.least_budget());
    chosen = search.find_within(least);
    least -= elsewhere;
    if (chosen) least = std::max(least, most_of_ranks(step, chosen->regions, in_file));
    if (!chosen || least > budget)
      throw bad_flag("--memory-budget: no schedule fits in " + gr::format_bytes(budget) +
                     "; the least that is feasible for this model and batch is " +
                     std::to_string((least + (1 << 20) - 1) >> 20) + "MiB");
  }
  chosen_memory m = plan_memory(step, chosen->regions, in_file);
  m.step_seconds = chosen->seconds;
  m.description = "memory budget " + gr::format_bytes(budget) + ":\n" + chosen->description;
  return m;
}

std::string offload_line(const chosen_memory& m) {
  return line("optimizer states in a file: %.1f MiB; memory for those of an update: %.1f MiB", mib(m.file_bytes),
              mib(m.resident_bytes));
}

void print_memory(const chosen_memory& m) {
  gr::progress screen;
  screen.line(describe_model() + ", batch " + std::to_string(batch_size));
  screen.line(gr::memory_table(m.plan, gr::output_columns()));
  screen.line(m.description);
  screen.line(line("parameters and optimizer state %.1f MiB, planned workspace %.1f MiB", mib(m.plan.persistent_bytes),
                   mib(m.workspace_bytes)));
  if (m.file_bytes > 0) screen.line(offload_line(m));
  screen.line(line("planned in all %.1f MiB", mib(m.total_bytes())));
  if (m.plan.host_bytes > 0)
    screen.line(
        line("results kept in %s: %.1f MiB", on_gpu ? "the host's memory" : "the file", mib(m.plan.host_bytes)));
  screen.line(
      line("outside of the plan and of --memory-budget: about %.0f MiB of the process itself, and texts that are "
           "encoded or joined",
           mib(process_bytes)));
  screen.line(line("a step is predicted to take %.0f ms, %.1f GFLOP of them computed again", m.step_seconds * 1e3,
                   static_cast<double>(m.plan.recomputed_flops()) / 1e9));
}

void print_rank(const options& o, const chosen_memory& m) {
  gr::progress screen;
  screen.line(
      line("rank %d of %d: parameters and optimizer state %.1f MiB, planned workspace %.1f MiB, in all %.1f MiB",
           o.rank, o.ranks, mib(m.plan.persistent_bytes), mib(m.workspace_bytes), mib(m.total_bytes())));
}

void write_report(const std::string& file, const chosen_memory& m, const gr::step_trace* measured) {
  if (file.empty()) return;
  if (file.ends_with(".json")) return gr::write_perfetto(file, m.step, measured);
  if (file.ends_with(".svg")) {
    std::vector<gr::curve> curves{live_bytes("planned", "#1f77b4", m.step)};
    if (measured != nullptr) curves.push_back(live_bytes("measured", "#d62728", *measured));
    const gr::chart_labels labels{"One training step of " + describe_model(), "requests and ends of blocks", "MiB"};
    return gr::write_file_atomically(file, gr::curve_svg(labels, curves));
  }
  gr::write_memory_page(file, "One training step of " + describe_model(), m.step, measured, m.offsets);
}

}  // namespace gpt
