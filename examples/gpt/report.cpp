#include "report.hpp"

#include <cmath>
#include <cstdio>
#include <ctime>

#include <gradus/io/atomic_file.hpp>
#include <gradus/train/size_hints.hpp>

namespace gpt {
namespace {

double mib(std::size_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

/// "1.2345 nats a byte", "4.3210 nats a token, 1.2345 a byte"
std::string nats(double loss, double bytes_a_token) {
  char text[96];
  if (bytes_a_token == 1) std::snprintf(text, sizeof text, "%.4f nats a byte", loss);
  else if (bytes_a_token == 0) std::snprintf(text, sizeof text, "%.4f nats a token", loss);
  else std::snprintf(text, sizeof text, "%.4f nats a token, %.4f a byte", loss, loss / bytes_a_token);
  return text;
}

}  // namespace

void write_config(const std::filesystem::path& folder, const options& o) {
  const std::time_t now = std::time(nullptr);
  char date[32];
  std::strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S", std::localtime(&now));
  std::string text = "# Written by gpt_train of gradus ";
  text += std::to_string(GRADUS_VERSION_MAJOR) + "." + std::to_string(GRADUS_VERSION_MINOR) + "." +
          std::to_string(GRADUS_VERSION_PATCH) + ", " + date + ". To repeat the run: scripts/train.sh --config FILE\n";
  gr::write_file_atomically(folder / "config", text + gr::config_text(o.config));
}

void report_start(gr::run_reporter& report, const std::filesystem::path& folder, const options& o,
                  const chosen_memory& memory, const run_start& start) {
  if (start.resumed_after < 0)
    report.log({{"model", "gpt"},
                {"layers", sizes.layers},
                {"heads", sizes.heads},
                {"width", sizes.width},
                {"context", sizes.context},
                {"vocabulary", sizes.vocabulary},
                {"precision", precision_name},
                {"optimizer", optimizer_name},
                {"schedule", o.schedule},
                {"batch", batch_size},
                {"parameters", start.parameters},
                {"accumulate", o.accumulate},
                {"lr", o.lr},
                {"seed", o.seed},
                {"device", device_name},
                {"machine", start.machine},
                {"checkpoint", o.memory_budget.empty() ? o.checkpoint : "budget " + o.memory_budget},
                {"planned_mib", mib(memory.total_bytes())},
                {"gemm_tflops", start.machine_flops / 1e12}});
  char line[256];
  std::snprintf(line, sizeof line, "%s, %.2fM parameters", describe_model().c_str(),
                static_cast<double>(start.parameters) / 1e6);
  report.line(line);
  const auto batches = static_cast<std::size_t>(o.accumulate);
  const std::string times = batches > 1 ? " x " + std::to_string(batches) : "";
  std::snprintf(line, sizeof line, "batch %zu%s: %zu tokens an update; %.2f%s", batch_size, times.c_str(),
                batch_size * batches * sizes.context, static_cast<double>(start.tokens) / 1e6,
                start.bytes ? " MB of text" : "M tokens");
  report.line(line);
  if (const std::size_t tokens = batch_size * batches * sizes.context; o.batch_tokens > 0 && o.batch_tokens != tokens)
    report.line("--batch-tokens " + std::to_string(o.batch_tokens) + ": the nearest is " + std::to_string(tokens) +
                ", " + counted(batches, "batch", "batches") + " of " + std::to_string(batch_size) + " x " +
                std::to_string(sizes.context));
  std::snprintf(line, sizeof line,
                "memory planned: %.0f MiB persistent, %.0f MiB for steps (%.0f MiB kept for backward)",
                mib(memory.plan.persistent_bytes), mib(memory.workspace_bytes), mib(memory.plan.saved_bytes));
  report.line(line);
  std::snprintf(line, sizeof line, "machine: %s, %.3f TFLOP/s in the model's matrix products", start.machine.c_str(),
                start.machine_flops / 1e12);
  report.line(line);
  if (!start.note.empty()) report.line(start.note);
  report.line("run folder " + folder.string());
  constexpr gr::index_t head = sizes.width / sizes.heads;
  const std::string heads = std::to_string(gr::rounded_up(head, 16));
  const std::string wider = std::to_string(gr::rounded_up(head, 16) * sizes.heads);
  for (const std::string& hint :
       {gr::size_hint("attention with a head width", head, 16, "--width " + wider + " has heads " + heads + " wide"),
        gr::size_hint("a vocabulary", sizes.vocabulary, 64,
                      "a tokenizer of " + std::to_string(gr::rounded_up(sizes.vocabulary, 64)) + " tokens is free")})
    if (!hint.empty()) report.line(hint);
  if (!start.starting_from.empty()) report.line(start.starting_from);
  if (start.resumed_after < 0) return;
  report.line("resumed after step " + std::to_string(start.resumed_after));
  if (start.planned_rate <= 0 || std::abs(start.rate - start.planned_rate) <= 1e-6 * start.planned_rate) return;
  std::snprintf(line, sizeof line,
                "the learning rate jumps from %.2e to %.2e: it follows --steps, --minutes, --lr, --schedule and "
                "--warmup, which are not those "
                "that the run had",
                start.planned_rate, start.rate);
  report.line(line);
}

void report_end(gr::run_reporter& report, const chosen_memory& memory, const run_end& end) {
  if (!end.saved.empty()) report.line("saved " + end.saved);
  char line[256];
  std::snprintf(line, sizeof line, "validation loss %s after %lld steps",
                nats(end.validation, end.bytes_a_token).c_str(), end.steps);
  report.line(line);
  std::snprintf(line, sizeof line, "memory: %.0f MiB planned, the %s peak %.0f MiB", mib(memory.total_bytes()),
                on_gpu ? "GPU's" : "process's", end.peak_mib);
  report.line(line);
  if (!end.scales_loss) return;
  std::snprintf(line, sizeof line, "loss scale %g at the end; updates skipped where gradients overflowed: %zu",
                end.loss_scale, end.skipped);
  report.line(line);
}

}  // namespace gpt
