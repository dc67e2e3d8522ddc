#pragma once
// Model files: those that runs write, those that --init names, and the tokenizer beside them.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <gradus/data/chat_format.hpp>
#include <gradus/run/checkpoint.hpp>
#include <gradus/run/model_file.hpp>
#include <gradus/tokenizer/text_tokenizer.hpp>

#include "adapters.hpp"
#include "config.hpp"
#include "options.hpp"

namespace gpt {

/// What tells a file's architecture, in its metadata: "gradus gpt".
inline std::string model_mark() { return std::string("gradus ") + sizes.name(); }

template <class Net>
void add_settings(const Net& net, gr::run_metadata& metadata) {
  for_each_setting(net, [&](const char* name, double value) { metadata.set(name, value); });
}
/// A setting that the metadata lacks, as files of earlier versions do, is as in a new model. Throws gr::error for one
/// that the model cannot have.
template <class Net>
void read_settings(Net& net, const gr::run_metadata& metadata) {
  for_each_setting(net, [&](const char* name, double& value) {
    if (metadata.all().contains(name)) value = metadata.number<double>(name);
  });
  if constexpr (requires { net.wrong_setting(); })
    if (const std::string wrong = net.wrong_setting(); !wrong.empty()) throw gr::error(wrong);
}

/// Writes a model with its sizes and its settings as metadata, beside what `metadata` has; of a model with adapters,
/// these alone.
template <class Net>
void save_model(const Net& net, const std::filesystem::path& path, const std::function<void()>& before_each = nullptr,
                gr::run_metadata metadata = {}) {
  metadata.set("model", model_mark());
  metadata.set("precision", std::string_view(precision_name));
  for (const auto& [name, size] : sizes.named()) metadata.set(name, size);
  add_settings(net, metadata);
  bool adapters = false;
  gr::nn::for_each_adapter_slot(net, [&](std::string_view, const auto& slot) { adapters = adapters || slot; });
  const auto is_kept = [&](std::string_view name) { return !adapters || !adapted_layer(name).empty(); };
  gr::save(net, path, is_kept, {metadata.all().begin(), metadata.all().end()}, before_each);
}
/// The metadata of a model file. Throws gr::error, which names the first size that differs, unless the file holds a
/// model of this program's architecture and sizes.
gr::run_metadata check_sizes(const std::filesystem::path& path);

using network_parameter =
    gr::param_base<gr::model_traits<network>::value_type, gr::model_traits<network>::gradient_value_type, gr::cpu>;
/// Reads a whole model: a file of ours, a folder of Hugging Face's or a GGUF file. Calls after(parameter), unless that
/// is null, for each that may be trained. Throws gr::error.
void load_whole(network& net, gr::context<gr::cpu>& ctx, const std::filesystem::path& path,
                const std::function<void(network_parameter&)>& after = nullptr);
/// Reads what load_whole() does, or adapters, of a run's file or a folder in PEFT's format, and the model that they
/// belong to: `base`, or if that is empty the one that the file names. Throws gr::error.
void load_network(network& net, gr::context<gr::cpu>& ctx, const std::filesystem::path& path,
                  const std::filesystem::path& base = {});

/// Gives another model of this program's sizes the values, settings and, if there are any, the adapters of `from`,
/// whose memory it shares on the CPU, unless this program rounds weights to 8 bits: then it has its own memory.
template <class Net>
void take_values(const network& from, Net& to, gr::context<typename Net::device>& ctx) {
  bool adapters = false;
  gr::nn::for_each_adapter_slot(from, [&](std::string_view name, const auto& slot) {
    if (!slot) return;
    gr::nn::add_adapters(
        to, [&](std::string_view other) { return other == name; }, slot->settings);
    adapters = true;
  });
  std::map<std::string, gr::buffer<gr::cpu>, std::less<>> values;
  gr::for_each_param(from, [&](std::string_view name, const auto& p) { values.emplace(name, p.storage()); });
  constexpr bool rounds = base_storage == gr::nn::base_storage::int8;
  gr::nn::for_each_quantized(to, [&]<class W>(std::string_view name, W& weight) {
    using T = typename W::tensor_type::value_type;
    const auto* const all = static_cast<const T*>(values.find(name)->second.data());
    weight.set(gr::from_host<T, typename W::shape>(ctx, all, gr::category::temporary));
  });
  gr::for_each_param(to, [&]<class P>(std::string_view name, P& p) {
    using T = typename P::value_type;
    if (adapter_rank > 0 && P::trains && !adapters) return;  // it keeps its own
    const gr::buffer<gr::cpu>& all = values.find(name)->second;
    if constexpr (Net::device::host_addressable && !rounds) return p.set_storage(all);
    p.set(gr::from_host<T, typename P::shape>(ctx, static_cast<const T*>(all.data()), gr::category::parameter));
  });
  std::vector<std::vector<float>> states;
  gr::visit_states(from, [&](const auto& s) { states.push_back(gr::to_host(s.value())); });
  std::size_t next = 0;
  gr::visit_states(to, [&]<class S>(S& s) {
    if constexpr (!S::is_constant)
      s.set(gr::from_host<float, typename S::shape>(ctx, states[next++].data(), gr::category::parameter));
  });
  gr::run_metadata settings;
  add_settings(from, settings);
  read_settings(to, settings);
}
/// load_network() into any model of this program's sizes.
template <class Net>
void load_model(Net& net, gr::context<typename Net::device>& ctx, const std::filesystem::path& path,
                const std::filesystem::path& base = {}) {
  if constexpr (std::is_same_v<Net, network>) {
    load_network(net, ctx, path, base);
  } else if constexpr (Net::device::host_addressable) {
    network read;
    load_network(read, ctx, path, base);
    take_values(read, net, ctx);
  } else {
    gr::stream host_stream;
    gr::host_resource heap;
    gr::context<gr::cpu> host{host_stream, heap};
    network read;
    load_network(read, host, path, base);
    take_values(read, net, ctx);
  }
}

/// The names of the linear layers that --lora-on stands for. Throws gr::bad_flag for a word that names none.
std::vector<std::string> adapted_layers(const std::string& words);

/// The tokenizer.json in the folder of a model file, or in a folder; empty if there is none.
std::string tokenizer_beside(const std::filesystem::path& model);
/// Reads a tokenizer.json. Throws gr::error if it has more tokens than the model.
gr::tokenizer read_model_tokenizer(const std::string& file);
/// The tokenizer in a file; bytes without one.
gr::text_tokenizer read_text_tokenizer(const std::string& file);

/// What a run shows of its model.
struct samples {
  int count = 0;  ///< tokens of each
  std::uint64_t seed = 0;
  std::vector<std::string> prompts;              ///< what they begin with; empty: one, which begins with nothing
  const gr::chat_format* chat_format = nullptr;  ///< of models that write chats, which answer the prompts
};
/// Prints what the model writes, until `stop`. For the model as it is trained.
template <class Net>
void print_samples(const Net& net, gr::context<gr::cpu>& ctx, const std::string& tokenizer, const samples& wanted,
                   const std::function<bool()>& stop);
/// Prints what the model in a file writes, until `stop`; runs on the CPU.
void print_samples(const std::filesystem::path& model, const samples& wanted, const std::function<bool()>& stop);

}  // namespace gpt
