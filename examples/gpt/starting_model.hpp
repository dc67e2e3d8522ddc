#pragma once
// The model that a run starts from (--init), and the data that its tokenizer encodes.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <gradus/data/dataset.hpp>
#include <gradus/tokenizer/tokenizer.hpp>

#include "adapters.hpp"
#include "config.hpp"
#include "model_file.hpp"
#include "options.hpp"
#include "text_data.hpp"

namespace gpt {

/// The model that --init names: a run starts from its weights, with data, batch and length of its own.
class starting_model {
 public:
  /// Throws gr::error if --init names no model. A run that is resumed has read it before.
  explicit starting_model(const options& o);

  /// The run's data. Throws gr::error if their tokenizer is not the model's.
  run_data open_data() const;
  /// What the files beside the data's tokenizer and beside the model say of texts, such as how chats are written.
  gr::text_settings text_settings(const gr::tokenizer* of_data) const;
  /// Loads the weights into a run's model, and calls after(parameter) for each that may be trained; does nothing
  /// without --init. The adapters of a model stay as they are.
  template <class Net, class After>
  void load(Net& net, gr::context<typename Net::device>& ctx, const After& after) {
    if (source_.empty()) return;
    if constexpr (std::is_same_v<Net, network>) {
      load_whole(net, ctx, source_, after);
      note(net);
    } else {
      gr::stream host_stream;
      gr::host_resource heap;
      gr::context<gr::cpu> host{host_stream, heap};
      network on_host;
      load_whole(on_host, host, source_);
      note(on_host);
      take_values(on_host, net, ctx);
      gr::visit_trained(net, after);
    }
  }
  /// Adds to the metadata of a file of adapters which model they belong to.
  template <class Net>
  void describe(const Net& net, gr::run_metadata& to) const {
    if constexpr (adapter_rank > 0)
      add_adapter_notes(net, std::filesystem::absolute(named_).string(), fingerprint_, to);
  }
  /// "starting from FILE"; empty without --init.
  std::string text() const { return source_.empty() ? "" : "starting from " + named_; }

 private:
  const options& options_;
  std::filesystem::path source_;  // a file of ours, a folder of Hugging Face's or a GGUF file; empty: none
  std::shared_ptr<const std::filesystem::path> unpacked_;  // the folder of the tokenizer of a GGUF file
  void note(const network& net) {
    if constexpr (adapter_rank > 0) {
      fingerprint_ = fingerprint_of_base(net);
      check_resumed();
    }
  }
  std::string named_;              // its name in messages
  std::uint32_t fingerprint_ = 0;  // of the model that adapters belong to
  // Throws gr::error if the run that is resumed has adapters of another model.
  void check_resumed() const;
  gr::dataset open_texts() const;
  example_data open_examples() const;
  std::filesystem::path beside_;            // a file in the folder of the tokenizer
  std::string encoder_;                     // tokenizer.json that encodes texts; empty: bytes
  std::optional<gr::tokenizer> tokenizer_;  // beside the model
};

}  // namespace gpt
