#pragma once
// Adapters of a model (--lora) as files: those of runs, and folders in the format of Hugging Face's PEFT. They are read
// and written on the CPU.

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gradus/io/safetensors.hpp>
#include <gradus/run/model_file.hpp>
#include <gradus/run/program.hpp>

#include "../../llama/huggingface.hpp"
#include "../adapters.hpp"
#include "../lora_layers.hpp"
#include "huggingface.hpp"

namespace gpt {

/// The module of transformers that is our linear layer `name`, and where in its weight ours lies.
template <class Net>
huggingface_tensor huggingface_module(const Net& net, std::string_view name) {
  huggingface_tensor place = place_in_huggingface(net, std::string(name) + ".weight");
  place.name = place.name.substr(0, place.name.rfind('.'));
  return place;
}

/// The linear layers of a model that can have adapters.
template <class Net>
std::vector<layer_names> adaptable_layers(const Net& net) {
  std::vector<layer_names> all;
  gr::nn::for_each_adapter_slot(
      net, [&](std::string_view ours, const auto&) { all.emplace_back(ours, huggingface_module(net, ours).name); });
  return all;
}

namespace detail {

/// Adapters that a file has: their layers and settings.
struct adapters_found {
  std::vector<std::string> layers;
  gr::nn::adapter_settings settings;
};
/// Gives a model these adapters, with memory of `ctx`, in place of those that it has.
template <class Net>
void make_adapters(Net& net, gr::context<typename Net::device>& ctx, const adapters_found& of,
                   const std::filesystem::path& from) {
  gr::nn::for_each_adapter_slot(net, [](std::string_view, auto& slot) { slot.reset(); });
  const std::size_t made = gr::nn::add_adapters(
      net, [&](std::string_view name) { return std::ranges::find(of.layers, name) != of.layers.end(); }, of.settings);
  if (made != of.layers.size() || made == 0)
    throw gr::error(from.string() + ": has adapters of layers that this model lacks; they belong to another one");
  gr::visit_trained(net, [&]<class P>(P& p) {
    p.set(gr::zeros<typename P::value_type, typename P::shape>(ctx, gr::category::parameter));
  });
}

/// Of a parameter's name, where PEFT has it: "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight".
template <class Net>
std::string peft_name(const Net& net, std::string_view name) {
  return "base_model.model." + huggingface_module(net, adapted_layer(name)).name +
         (name.ends_with(".a") ? ".lora_A.weight" : ".lora_B.weight");
}

/// Refuses the settings of an adapter_config.json (peft 0.21) with which a model would not be the base and its adapters
/// alone. How the adapters began changes nothing where it leaves the base as it is: gaussian, orthogonal, eva, mica.
inline void check_peft_settings(const huggingface_config& config) {
  config.check_text("peft_type", "LORA");
  config.check_fixed("bias", "none");
  const nlohmann::json start = config.value("init_lora_weights");
  if (start.is_string() && start != "gaussian" && start != "orthogonal" && start != "eva" && start != "mica")
    config.fail("init_lora_weights",
                ", whose model is another than the one it was made of; PEFT saves a plain adapter "
                "of it by path_initial_model_for_weight_conversion");
  // Which layers have adapters is seen by the tensors.
  static constexpr std::string_view harmless =
      " task_type auto_mapping peft_version base_model_name_or_path revision inference_mode target_modules "
      "exclude_modules ensure_weight_tying fan_in_fan_out layers_to_transform layers_pattern megatron_config "
      "megatron_core loftq_config eva_config qalora_group_size runtime_config r lora_alpha lora_dropout use_rslora "
      "peft_type bias init_lora_weights ";
  for (const auto& [key, value] : config.all().items())
    if (!is_harmless(key, harmless) && value != false && !value.empty())  // null is empty
      config.fail(key.c_str(), ", which this program does not know");
}

template <class Net>
void load_peft(Net& net, gr::context<typename Net::device>& ctx, const std::filesystem::path& folder,
               gr::index_t rank) {
  const huggingface_config config(folder / "adapter_config.json");
  check_peft_settings(config);
  if (config.number("r") != static_cast<double>(rank)) config.fail_compiled("r", std::to_string(rank));
  adapters_found found;
  found.settings = {.alpha = config.number("lora_alpha", 8),
                    .rank_stabilized = config.value("use_rslora") == true,
                    .dropout = config.number("lora_dropout", 0)};
  const std::filesystem::path path = folder / "adapter_model.safetensors";
  gr::safetensors_file file(path);
  std::set<std::string> known;
  gr::nn::for_each_adapter_slot(net, [&](std::string_view ours, const auto&) {
    const std::string a = peft_name(net, std::string(ours) + ".adapter.a"),
                      b = peft_name(net, std::string(ours) + ".adapter.b");
    if (!file.has(a) && !file.has(b)) return;
    if (huggingface_module(net, ours).of > 0)
      throw gr::error(path.string() + ": '" + a + "' is one adapter for several of our layers");
    found.layers.emplace_back(ours);
    known.insert({a, b});
  });
  for (const auto& [name, entry] : file.entries())
    if (!known.contains(name))
      throw gr::error(path.string() + ": '" + name +
                      "' is no adapter of a linear layer of this model; it may belong to another one");
  make_adapters(net, ctx, found, path);
  const auto read = [&](const auto& set) {
    gr::for_each_trained(net, [&]<class P>(std::string_view name, P& p) {
      using T = typename P::value_type;
      const std::size_t shape[] = {P::shape::extent(1), P::shape::extent(0)};
      set(p, transposed<T>(file.read_as<T>(peft_name(net, name), shape), shape[0]));
    });
  };
  read([](auto&, const auto&) {});
  read([&]<class P>(P& p, const auto& values) {
    p.set(gr::from_host<typename P::value_type, typename P::shape>(ctx, values.data(), gr::category::parameter));
  });
}

template <class Net>
void load_own_adapters(Net& net, gr::context<typename Net::device>& ctx, const std::filesystem::path& path,
                       gr::index_t rank) {
  gr::safetensors_file file(path);
  const gr::run_metadata notes(file.metadata());
  if (!notes.all().contains("lora")) throw gr::error(path.string() + ": holds a whole model, and no adapters");
  if (notes.number<gr::index_t>("lora") != rank)
    throw gr::error(path.string() + ": its adapters have the rank " + notes.text("lora") +
                    ", and this program was compiled for " + std::to_string(rank));
  adapters_found found;
  found.settings = {.alpha = notes.number<double>("lora_alpha"),
                    .rank_stabilized = notes.number<int>("rslora") != 0,
                    .dropout = notes.number<double>("lora_dropout")};
  for (const auto& [name, entry] : file.entries())
    if (name.ends_with(".adapter.a") && name.starts_with("blocks.")) found.layers.push_back(adapted_layer(name));
  const bool comparable = !notes.all().contains("precision") || notes.text("precision") != "fp16_mixed";
  if (comparable && notes.number<std::uint32_t>("base_fingerprint") != fingerprint_of_base(net))
    throw gr::error(path.string() + ": its adapters belong to another model than this one; they were trained on " +
                    notes.text("base"));
  make_adapters(net, ctx, found, path);
  file.check_checksum();
  gr::for_each_trained(net, [&]<class P>(std::string_view name, const P&) {
    file.check_as<typename P::value_type>(name,
                                          std::vector<std::size_t>(P::shape::extents.begin(), P::shape::extents.end()));
  });
  gr::load(net, ctx, path, {.strict = false});
}

}  // namespace detail

/// The model that adapters belong to, of a run's file or a folder in PEFT's format. Throws gr::error if the file names
/// none, or one that is not there.
inline std::filesystem::path base_of_adapters(const std::filesystem::path& from) {
  std::string base;
  if (is_folder(from)) {
    const auto named = huggingface_config(from / "adapter_config.json").value("base_model_name_or_path");
    if (named.is_string()) base = named.get<std::string>();
  } else {
    const gr::run_metadata notes(gr::safetensors_file(from).metadata());
    if (!notes.all().contains("lora")) throw gr::error(from.string() + ": holds a whole model, and no adapters");
    base = notes.text("base");
  }
  if (base.empty() || !is_there(base))
    throw gr::error(from.string() + ": its adapters belong to the model '" + base + "', which is not there");
  return base;
}

/// Reads adapters of this rank, of a run's file or of a folder in PEFT's format, into a model whose other parameters
/// are there. Throws gr::error if they are those of another model, before the model has changed.
template <class Net>
void load_adapters(Net& net, gr::context<typename Net::device>& ctx, const std::filesystem::path& from,
                   gr::index_t rank) {
  if (is_folder(from)) detail::load_peft(net, ctx, from, rank);
  else detail::load_own_adapters(net, ctx, from, rank);
}

/// Writes the adapters into a folder in PEFT's format, which must be there: adapter_config.json and
/// adapter_model.safetensors. `base` is the name of the model that they belong to. Throws gradus::error.
template <class Net>
void save_peft(const Net& net, const std::filesystem::path& folder, const std::string& base) {
  gr::nn::adapter_settings settings;
  gr::index_t rank = 0;
  bool fan_in_fan_out = false;
  std::map<std::string, bool> modules;  // by the ends of their names: whether all of that name have an adapter
  std::vector<std::string> adapted;
  gr::nn::for_each_adapter_slot(net, [&](std::string_view ours, const auto& slot) {
    const huggingface_tensor module = huggingface_module(net, ours);
    auto& all = modules.try_emplace(module.name.substr(module.name.rfind('.') + 1), true).first->second;
    all = all && slot.has_value();
    if (!slot) return;
    if (module.of > 0)
      throw gr::error("PEFT has one adapter for " + module.name +
                      ", which is several layers here: merge the adapters into the model (--merge)");
    settings = slot->settings, rank = slot->rank;
    fan_in_fan_out = !module.transposed;
    adapted.push_back(module.name);
  });
  nlohmann::ordered_json targets = nlohmann::json::array();
  for (const auto& [name, all] : modules)
    if (all) targets.push_back(name);
  for (const std::string& name : adapted)
    if (!modules.at(name.substr(name.rfind('.') + 1))) targets.push_back(name);
  using T = typename gr::model_traits<Net>::value_type;
  gr::safetensors_writer file;
  file.set_metadata("format", "pt");
  std::vector<std::vector<T>> kept;
  kept.reserve(2 * adapted.size());
  gr::for_each_trained(net, [&]<class P>(std::string_view name, const P& p) {
    kept.push_back(transposed<T>(p.value().values(), P::shape::extent(0)));
    const std::size_t shape[] = {P::shape::extent(1), P::shape::extent(0)};
    file.add(detail::peft_name(net, name), std::span<const std::size_t>(shape), std::span<const T>(kept.back()));
  });
  file.write(folder / "adapter_model.safetensors");
  const nlohmann::ordered_json config{{"peft_type", "LORA"},
                                      {"task_type", "CAUSAL_LM"},
                                      {"base_model_name_or_path", base},
                                      {"r", rank},
                                      {"lora_alpha", settings.alpha},
                                      {"lora_dropout", settings.dropout},
                                      {"use_rslora", settings.rank_stabilized},
                                      {"target_modules", targets},
                                      {"bias", "none"},
                                      {"fan_in_fan_out", fan_in_fan_out},
                                      {"inference_mode", true}};
  gr::write_file_atomically(folder / "adapter_config.json", config.dump(2) + "\n");
}

/// Adds what adapters add to the weights of their layers, on the CPU, and removes the adapters.
template <class Net>
void merge_adapters(Net& net) {
  std::map<std::string, std::pair<std::vector<float>, std::vector<double>>> added;  // by layer: a, and a b
  std::map<std::string, double> scales;
  gr::nn::for_each_adapter_slot(net, [&](std::string_view name, const auto& slot) {
    if (slot) scales[std::string(name)] = slot->scale();
  });
  gr::for_each_trained(net, [&]<class P>(std::string_view name, const P& p) {
    auto& [a, product] = added[adapted_layer(name)];
    const auto values = p.value().values();
    if (name.ends_with(".a")) return a.assign(values.begin(), values.end());
    const std::size_t rank = P::shape::extent(0), out = P::shape::extent(1), in = a.size() / rank;
    product.assign(in * out, 0);
    for (std::size_t i = 0; i < in; ++i)
      for (std::size_t k = 0; k < rank; ++k)
        for (std::size_t j = 0; j < out; ++j)
          product[i * out + j] += static_cast<double>(a[i * rank + k]) * static_cast<double>(values[k * out + j]);
  });
  gr::nn::for_each_adapter_slot(net, [](std::string_view, auto& slot) { slot.reset(); });
  gr::for_each_param(net, [&]<class P>(std::string_view name, P& p) {
    const auto found =
        name.ends_with(".weight") ? added.find(std::string(name.substr(0, name.rfind('.')))) : added.end();
    if (found == added.end()) return;
    const double scale = scales.at(found->first);
    const auto values = p.edit().values();
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<typename P::value_type>(
          static_cast<float>(static_cast<double>(values[i]) + scale * found->second.second[i]));
  });
}

}  // namespace gpt
