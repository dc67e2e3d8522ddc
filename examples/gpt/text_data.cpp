#include "text_data.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "model_file.hpp"

namespace gpt {

gr::run_metadata identity_of(const options& o, const run_data& data) {
  gr::run_metadata metadata;
  metadata.set("model", model_mark());
  for (const auto& [name, size] : sizes.named()) metadata.set(name, size);
  metadata.set("batch", batch_size);
  metadata.set("precision", std::string_view(precision_name));
  metadata.set("optimizer", std::string_view(optimizer_name));
  metadata.set("accumulate", o.accumulate);
  metadata.set("leaves", o.leaves);
  metadata.set("seed", o.seed);
  metadata.set("order", std::string_view(o.order));
  metadata.set("data", std::string_view(data.identity()));
  if (o.lora > 0) {
    metadata.set("lora", o.lora);
    if (o.base != "stored") metadata.set("base_storage", std::string_view(o.base));
    metadata.set("lora_on", std::string_view(o.lora_on));
    metadata.set("lora_alpha", o.lora_alpha);
    metadata.set("lora_dropout", o.lora_dropout);
    if (o.dpo > 0) metadata.set("dpo", o.dpo);
    metadata.set("rslora", static_cast<int>(o.rslora));
  }
  return metadata;
}

gr::config_entries shared_settings(const options& o, const gr::run_metadata& identity) {
  gr::config_entries all;
  for (const auto& [name, value] : identity.all()) all.emplace_back(name, value);
  // Where its files are, and what it may use, is a rank's own.
  for (const auto& entry : o.config)
    if (std::ranges::none_of(std::array{"data", "validation-data", "tokenizer", "init", "memory-report",
                                        "tune-products", "offload", "threads", "workers"},
                             [&](const char* name) { return entry.first == name; }))
      all.push_back(entry);
  return all;
}

double text_data::bytes_a_token(std::size_t tokens) const {
  if (files.bytes()) return 1;
  if (files.tokenizer() == nullptr) return 0;
  const std::size_t batches = validation_batches(tokens);
  std::size_t bytes = 0;
  for (std::size_t part = 0; part < batches; ++part)
    for (const token t : validation.spread_batch<batch_size>(part, batches).targets)
      bytes += files.tokenizer()->bytes_of(static_cast<gr::tokenizer::token>(t)).size();
  return static_cast<double>(bytes) / static_cast<double>(batches * batch_tokens);
}

void add_load(const std::vector<std::vector<double>>& load, gr::validation& to) {
  double least = 1, most = 0;
  for (const auto& block : load)
    for (const double share : block) least = std::min(least, share), most = std::max(most, share);
  const auto experts = static_cast<double>(load.front().size());
  to.fields.emplace_back("expert_load", load);
  to.note = line("experts: the load of one is %.2f to %.2f times the mean", least * experts, most * experts);
}

}  // namespace gpt
