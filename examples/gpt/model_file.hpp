#pragma once
// Model files: those that runs write, those that --init names, and the tokenizer beside them.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <gradus/data/dataset.hpp>
#include <gradus/run/checkpoint.hpp>
#include <gradus/run/model_file.hpp>
#include <gradus/tokenizer/text_tokenizer.hpp>

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

/// Writes a model with its sizes and its settings as metadata.
template <class Net>
void save_model(const Net& net, const std::filesystem::path& path, const std::function<void()>& before_each = nullptr) {
  gr::run_metadata metadata;
  metadata.set("model", model_mark());
  metadata.set("precision", std::string_view(precision_name));
  for (const auto& [name, size] : sizes.named()) metadata.set(name, size);
  add_settings(net, metadata);
  gr::save(net, path, {metadata.all().begin(), metadata.all().end()}, before_each);
}
/// The metadata of a model file. Throws gr::error, which names the first size that differs, unless the file holds a
/// model of this program's architecture and sizes.
gr::run_metadata check_sizes(const std::filesystem::path& path);
template <class Net, class After = gr::nothing_after>
void load_model(Net& net, gr::context<typename Net::device>& ctx, const std::filesystem::path& path,
                const After& after = {}) {
  const gr::run_metadata metadata = check_sizes(path);
  gr::load(net, ctx, path, {}, after);
  read_settings(net, metadata);
}

/// The tokenizer.json in the folder of a model file; empty if there is none.
std::string tokenizer_beside(const std::filesystem::path& model);
/// Reads a tokenizer.json. Throws gr::error if it has more tokens than the model.
gr::tokenizer read_model_tokenizer(const std::string& file);
/// The tokenizer in a file; bytes without one.
gr::text_tokenizer read_text_tokenizer(const std::string& file);

/// Prints `count` tokens that the model writes, until `stop`.
void print_sample(const network& net, gr::context<gr::cpu>& ctx, const std::string& tokenizer, int count,
                  std::uint64_t seed, const std::function<bool()>& stop);
/// Prints `count` tokens that the model in a file writes, until `stop`; runs on the CPU.
void print_sample(const std::filesystem::path& model, int count, std::uint64_t seed, const std::function<bool()>& stop);

/// The model that --init names: a run starts from its weights, with data, batch and length of its own.
class starting_model {
 public:
  /// Throws gr::error if --init names no model. A run that is resumed has read it before.
  explicit starting_model(const options& o);

  /// The run's data. Throws gr::error if their tokenizer is not the model's.
  gr::dataset open_data() const;
  /// Loads the weights into a run's model, and calls after(parameter) for each; does nothing without --init.
  template <class Net, class After>
  void load(Net& net, gr::context<typename Net::device>& ctx, const After& after) const {
    if (file_.empty()) return;
    if constexpr (Net::device::host_addressable) {
      read(net, ctx, after);
    } else {
      gr::stream host_stream;
      gr::host_resource heap;
      gr::context<gr::cpu> host{host_stream, heap};
      network on_host;
      read(on_host, host, [](auto&) {});
      gr::copy(on_host, net);
      gr::visit_params(net, after);
      gr::run_metadata settings;
      add_settings(on_host, settings);
      read_settings(net, settings);
    }
  }
  /// "starting from FILE"; empty without --init.
  std::string text() const { return file_.empty() ? "" : "starting from " + named_; }

 private:
  using parameter =
      gr::param_base<gr::model_traits<network>::value_type, gr::model_traits<network>::gradient_value_type, gr::cpu>;
  void read(network& net, gr::context<gr::cpu>& ctx, const std::function<void(parameter&)>& after) const;

  const options& options_;
  std::filesystem::path file_;    // of tensors; empty: none
  std::filesystem::path source_;  // a folder of Hugging Face's or a GGUF file; empty: a file of ours
  std::shared_ptr<const std::filesystem::path> unpacked_;  // the folder of the tokenizer of a GGUF file
  std::string named_;                                      // its name in messages
  std::string encoder_;                                    // tokenizer.json that encodes texts; empty: bytes
  std::optional<gr::tokenizer> tokenizer_;                 // beside the model
};

}  // namespace gpt
