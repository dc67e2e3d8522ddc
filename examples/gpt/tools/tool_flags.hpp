#pragma once
// What the tools of a model are asked for, with the checks that need no model: the tools read these tables, and so does
// the command, before it compiles one.

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <gradus/generate/sampling.hpp>

#include "../../flags/flags.hpp"
#include "../chat_format_flag.hpp"
#include "../model_folder.hpp"
#include "gguf.hpp"
#include "unfinished_folder.hpp"

namespace gpt {

inline flag adapter_flag(std::string& member) {
  return text("adapter", member, "adapters of that model: the model.safetensors of a run, or a folder of PEFT's")
      .path();
}
inline flag tokenizer_flag(std::string& member) {
  return text("tokenizer", member, "tokenizer.json (default: the one beside the model; without one, tokens are bytes)")
      .path();
}

/// What gpt_sample is asked for.
struct sample_options {
  std::string model, prompt, tokenizer, adapter, device = "cpu";
  std::vector<std::string> stop;
  int count = 400, samples = 1, threads = 0, gpu = 0;
  bool speed = false, chat = false;
  std::string system, chat_format;
  gr::sampling_rule rule{.temperature = 0.8};
  std::uint64_t seed = 1;

  flag_table table() {
    constexpr int most = std::numeric_limits<int>::max();
    return flag_table(
        "Writes text with a trained GPT.",
        {positional("model", model,
                    "model.safetensors of a run, a folder of Hugging Face's, or NAME.gguf; of a run with --lora, its "
                    "adapters, which say where their model is"),
         adapter_flag(adapter), text("prompt", prompt, "what the text begins with; -: what standard input holds"),
         whole("count", count, 1, most, "tokens to write, which are bytes without a tokenizer"),
         whole("samples", samples, 1, most, "texts to write, eight at a time"),
         not_negative("temperature", rule.temperature, "0: always the likeliest token; 1: the model's own odds"),
         whole("top-k", rule.top_k, 0, most, "choose among this many tokens; 0: among all"),
         number(
             "top-p", rule.top_p, "above 0 and at most 1", [](double x) { return x > 0 && x <= 1; },
             "choose among the fewest tokens whose probabilities add up to this; 1: among all"),
         number(
             "repetition-penalty", rule.repetition_penalty, "above 0", [](double x) { return x > 0; },
             "above 1, tokens that the model sees already become less likely"),
         texts("stop", stop, "end before this text; may be given several times"),
         seed_flag(seed, "another seed, another text"), tokenizer_flag(tokenizer),
         on_off("chat", chat, "hold a conversation: each line of standard input is a message; Ctrl-C ends an answer"),
         text("system", system, "of a conversation: the system's message, which begins it"),
         chat_format_flag(chat_format, "of a conversation: " + gr::chat_format_names() +
                                           " (default: what the tokenizer_config.json beside the tokenizer says)"),
         on_off("speed", speed, "say on stderr how many tokens a second were written"), threads_flag(threads),
         device_flag(device, gpu)});
  }
  /// Throws gr::bad_flag for flags that do not go together.
  void check(const flag_table& flags) const {
    for (const char* name : {"prompt", "samples", "stop", "speed"})
      if (chat && flags.given(name)) throw gr::bad_flag(std::string("--chat and --") + name + ": give one of them");
    for (const char* name : {"system", "chat-format"})
      if (!chat && flags.given(name)) throw gr::bad_flag(std::string("--") + name + " is for --chat");
    for (const std::string& text : stop) gr::check_flag(!text.empty(), "--stop", "a text", "''");
  }
};

/// What gpt_evaluate is asked for.
struct evaluate_options {
  std::string model, tokenizer, adapter, device = "cpu";
  std::vector<std::string> data;
  int threads = 0, gpu = 0;

  flag_table table() {
    return flag_table("Measures how well a trained GPT predicts a text.",
                      {positional("model", model, "model.safetensors of a run"), adapter_flag(adapter),
                       texts("data", data, "text files, which are read one after another").path().required(),
                       tokenizer_flag(tokenizer), threads_flag(threads), device_flag(device, gpu)});
  }
};

/// What gpt_convert is asked for.
struct convert_options {
  std::string from, out, tokenizer, adapter, type = "f16", shards = "5GB";
  bool merge = false;

  /// Whether adapters are added to their model.
  bool merges() const { return merge || !adapter.empty(); }

  flag_table table() {
    return flag_table(
        "Converts a model between the files of gpt_train, the folders of Hugging Face's transformers, and GGUF files.",
        {positional("from", from, "NAME.safetensors of gpt_train, a folder of Hugging Face's, or NAME.gguf"),
         named("out", out, "the name of a file or folder",
               "what to write: NAME.safetensors, NAME.gguf, or a folder; it must not exist yet")
             .required(),
         on_off("merge", merge,
                "add the adapters of a run with --lora to its model, and write that; without it, they become a folder "
                "of PEFT's"),
         text("adapter", adapter,
              "adapters of the model to add to it: the model.safetensors of a run, or a folder of PEFT's")
             .path(),
         choice("type", type, gguf_types, "of the matrices in NAME.gguf: f32, f16, bf16 or q8_0"),
         size("shards", shards, "the largest file of a folder: a larger model becomes several, with an index"),
         text("tokenizer", tokenizer, "tokenizer.json for a model of gpt_train (default: the one beside the model)")
             .path()});
  }
  /// Throws gr::bad_flag for flags that do not go together, and gr::error for an `out` that is there already.
  /// `adapters`: whether there are some, in `from` or by --adapter.
  void check(const flag_table& flags, bool adapters) const {
    using enum model_format;
    const model_format has = format_to_read(from), wanted = format_to_write(out);
    if (merge && !adapters) throw gr::bad_flag("--merge: " + from + " has no adapters");
    if (adapters && !merges()) {
      if (wanted != folder)
        throw gr::bad_flag("--out " + out +
                           ": adapters become a new folder, of PEFT's; --merge writes the whole model");
    } else {
      if (has == wanted && !merges())
        throw gr::bad_flag("--out " + out + " is of the same kind as " + from +
                           "; name NAME.gguf, NAME.safetensors, or a folder");
      if (flags.given("tokenizer") && has != own) throw gr::bad_flag("--tokenizer is for a model of gpt_train");
      if (flags.given("type") && wanted != gguf) throw gr::bad_flag("--type is for NAME.gguf");
      if (flags.given("shards") && wanted != folder) throw gr::bad_flag("--shards is for a folder");
    }
    if (wanted == folder) check_new_folder(out);
    else if (is_there(out)) throw gr::error(out + ": is there already; name a new file");
  }
};

}  // namespace gpt
