// Converts models between the files of gpt_train, the folders of Hugging Face's transformers, and GGUF files. A file of
// gpt_train must have the sizes that this program was compiled for; the others are converted to each other at any size.

#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>

#include <gradus/tokenizer/text_settings_json.hpp>
#include <gradus/tokenizer/tokenizer_trainer.hpp>

#include "../../llama/huggingface.hpp"
#include "../model_file.hpp"
#include "huggingface.hpp"
#include "peft.hpp"
#include "tool_flags.hpp"
#include "unfinished_folder.hpp"

namespace gr = gradus;

namespace {

// The tokenizer in a file, or where none is named that beside the model; without one, the tokens of a model of 256 are
// bytes.
std::optional<gr::tokenizer> tokenizer_of(const std::filesystem::path& model, std::string file) {
  if (file.empty()) file = gpt::tokenizer_beside(model);
  if (!file.empty()) return gpt::read_model_tokenizer(file);
  if (gpt::sizes.vocabulary != gr::byte_tokenizer::vocabulary) return std::nullopt;
  gr::tokenizer bytes = gr::byte_level_tokenizer();
  bytes.set(gr::read_text_settings(gpt::folder_of(model)));
  return bytes;
}

// A model of this program's sizes, without adapters.
using plain_network = gpt::model_of<gpt::placed<gr::cpu, gpt::host_precision, 0>, gpt::sizes>;

// Calls f(model) with the model in a file of ours, or with the whole that it and `adapter`, if one is named, are.
template <class F>
void with_whole_model(const std::string& from, const std::string& adapter, const F& f) {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  gpt::network net;
  if (adapter.empty()) gpt::load_network(net, ctx, from);
  else gpt::load_network(net, ctx, adapter, from);
  if constexpr (gpt::adapter_rank == 0) {
    f(net);
  } else {
    gpt::merge_adapters(net);
    plain_network merged;
    gr::init(merged, ctx, gr::normal_init{});
    gr::copy(net, merged);
    gr::run_metadata settings;
    gpt::add_settings(net, settings);
    gpt::read_settings(merged, settings);
    f(merged);
  }
}

// Writes the adapters in a file of ours as a folder of PEFT's.
void write_adapters(const std::string& from, const std::string& out) {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  gpt::network net;
  gpt::load_network(net, ctx, from);
  gpt::unfinished_folder files(out);
  gpt::save_peft(net, files.path(), gpt::base_of_adapters(from).string());
  if (const auto words = tokenizer_of(from, ""))
    gpt::save_huggingface_tokenizer(*words, gpt::sizes.context, files.path());
  files.finish();
}

}  // namespace

int main(int argc, char** argv) {
  return gr::run_program("gpt_convert", [&] {
    using enum gpt::model_format;
    gpt::convert_options o;
    gpt::flag_table flags = o.table();
    if (!flags.read(argc, argv)) return 0;
    const std::string &from = o.from, &out = o.out, &adapter = o.adapter;
    if (!gpt::is_there(from)) throw gr::error(from + ": no such file or folder");
    const gpt::model_format has = gpt::format_to_read(from), wanted = gpt::format_to_write(out);
    const bool whole = o.merges();
    o.check(flags, gpt::adapter_rank > 0);
    if (gpt::adapter_rank > 0 && !whole) {
      write_adapters(from, out);
      std::printf("wrote %s: adapters of rank %d\n", out.c_str(), static_cast<int>(gpt::adapter_rank));
      return 0;
    }

    if (wanted == own) {
      with_whole_model(from, adapter, [&](auto& net) { gpt::save_model(net, out); });
    } else if (has == folder && !whole) {
      gpt::write_gguf(from, out, o.type);
    } else {
      gpt::unfinished_folder files(out);  // a GGUF file is made of a folder
      if (has == gguf && !whole) gpt::write_folder_of_gguf(from, files.path(), gr::parse_bytes(o.shards));
      else
        with_whole_model(from, adapter, [&](auto& net) {
          if (has == gguf) gpt::write_tokenizer_of_gguf(gr::gguf_file(from), gpt::sizes.context, files.path());
          const std::filesystem::path model = has == gguf ? files.path() / "" : std::filesystem::path(from);
          const std::optional<gr::tokenizer> words = tokenizer_of(model, o.tokenizer);
          save_huggingface(net, files.path(), words ? &*words : nullptr, gr::parse_bytes(o.shards),
                           gr::read_text_settings(gpt::folder_of(model)));
          if (!words && has != gguf)
            std::puts("without a tokenizer: there is no tokenizer.json beside the model; --tokenizer names one");
        });
      if (wanted == gguf) gpt::write_gguf(files.path(), out, o.type);
      else files.finish();
    }
    std::printf("wrote %s%s\n", out.c_str(), has == own || wanted == own ? (": " + gpt::describe_model()).c_str() : "");
    return 0;
  });
}
