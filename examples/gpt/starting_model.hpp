#pragma once
// Where --init has a run start: from the weights of another model, with data, a batch and a length of its own.

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gradus/data/bpe.hpp>
#include <gradus/data/dataset.hpp>

#include "options.hpp"

namespace gpt {

class starting_model {
 public:
  /// What --init names; nothing without it, and for a run that is resumed. Throws gradus::error where it names no
  /// model.
  explicit starting_model(const options& o);

  /// The run's data. Their tokens are the model's: throws gradus::error where they were made by another tokenizer.
  gr::dataset open_data() const;

  /// Fills the model, if there is one to start from.
  template <class On>
  void load(model<On, sizes>& net, gr::context<typename On::device>& ctx) const {
    if (file_.empty()) return;
    if constexpr (On::device::host_addressable) {
      read(net, ctx);
    } else {
      gr::stream host_stream;
      gr::host_resource heap;
      gr::context<gr::cpu> host{host_stream, heap};
      network there;
      read(there, host);
      std::vector<const void*> values;
      gr::for_each_param(there, [&](std::string_view, const auto& p) { values.push_back(p.value().data()); });
      std::size_t next = 0;
      gr::for_each_param(net, [&]<class P>(std::string_view, P& p) {
        using T = typename P::value_type;
        const auto* from = static_cast<const T*>(values[next++]);
        p.set(gr::from_host<T, typename P::shape>(ctx, from, gr::category::parameter));
      });
    }
  }
  /// "starting from runs/mine/model.safetensors"; empty where a run starts from nothing.
  std::string text() const { return file_.empty() ? "" : "starting from " + named_; }

 private:
  void read(network& net, gr::context<gr::cpu>& ctx) const;

  const options& options_;
  std::filesystem::path file_;                  // of tensors; empty: none
  bool huggingface_ = false;                    // whether it lies in a folder of Hugging Face's
  std::string named_;                           // as messages name it
  std::string encoder_;                         // tokenizer.json that texts are encoded by; empty: none
  std::optional<gr::bpe_tokenizer> tokenizer_;  // beside the model
};

}  // namespace gpt
