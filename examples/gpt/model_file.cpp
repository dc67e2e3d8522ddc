#include "model_file.hpp"

#include <algorithm>
#include <cstdio>

#include <gradus/core/printable.hpp>
#include <gradus/generate/token_window.hpp>
#include <gradus/io/safetensors.hpp>
#include <gradus/run/run_folder.hpp>
#include <gradus/tokenizer/tokenizer_json.hpp>
#include <gradus/tokenizer/tokenizer_trainer.hpp>

#include "../llama/huggingface.hpp"
#include "model_folder.hpp"
#include "tools/chat.hpp"
#include "tools/huggingface.hpp"
#include "tools/peft.hpp"

namespace gpt {

namespace fs = std::filesystem;

gr::run_metadata check_sizes(const fs::path& path) {
  const gr::run_metadata metadata(gr::safetensors_file(path).metadata());
  const auto check = [&](const std::string& name, const std::string& found, const std::string& wanted) {
    if (found != wanted)
      throw gr::error(path.string() + ": its " + name + " is " + found + ", and this program was compiled for " +
                      wanted);
  };
  if (metadata.all().contains("model")) check("model", metadata.text("model"), model_mark());
  for (const llama::size_row& row : llama::size_rows)  // a size that is said here is none of this program's
    if (const auto ours = sizes.named();
        row.optional && metadata.all().contains(row.flag) &&
        std::ranges::none_of(ours, [&](auto& one) { return one.first == std::string(row.flag); }))
      check(row.flag, metadata.text(row.flag), "none");
  for (const auto& [name, size] : sizes.named()) {
    if (!metadata.all().contains(name))
      throw gr::error(path.string() + ": no model of this program: it names no " + name);
    check(name, metadata.text(name), std::to_string(size));
  }
  return metadata;
}

std::vector<std::string> adapted_layers(const std::string& words) {
  return choose_layers(adaptable_layers(network()), words, "--lora-on");
}

void load_whole(network& net, gr::context<gr::cpu>& ctx, const fs::path& path,
                const std::function<void(network_parameter&)>& after) {
  const auto note = [&](network_parameter& p) {
    if (after) after(p);
  };
  if (format_to_read(path) != model_format::own) return load_huggingface(net, ctx, path, note);
  const gr::run_metadata metadata = check_sizes(path);
  if (metadata.all().contains("lora"))
    throw gr::error(path.string() + ": holds adapters alone, of the model " + metadata.text("base"));
  // Of a model of adapters, these are not in the file.
  const gr::load_report read = gr::load(net, ctx, path, {.strict = adapter_rank == 0}, note);
  for (const auto* names : {&read.missing, &read.other_shape})
    for (const std::string& name : *names)
      if (adapted_layer(name).empty()) throw gr::error(path.string() + ": has no '" + name + "' of this model's shape");
  read_settings(net, metadata);
}

void load_network(network& net, gr::context<gr::cpu>& ctx, const fs::path& path, const fs::path& base) {
  if constexpr (adapter_rank == 0) {
    load_whole(net, ctx, path);
  } else {
    load_whole(net, ctx, base.empty() ? base_of_adapters(path) : base);
    load_adapters(net, ctx, path, adapter_rank);
  }
}

std::string tokenizer_beside(const fs::path& model) {
  const fs::path path = folder_of(model) / "tokenizer.json";
  return is_there(path) ? path.string() : std::string();
}

gr::tokenizer read_model_tokenizer(const std::string& file) {
  gr::tokenizer read = gr::read_tokenizer_json(file);
  if (read.vocabulary() > sizes.vocabulary)
    throw gr::error(file + ": has " + std::to_string(read.vocabulary()) +
                    " tokens, and the vocabulary of this program's model is " + std::to_string(sizes.vocabulary));
  return read;
}

gr::text_tokenizer read_text_tokenizer(const std::string& file) {
  return file.empty() ? gr::text_tokenizer() : gr::text_tokenizer(read_model_tokenizer(file));
}

template <class Net>
void print_samples(const Net& net, gr::context<gr::cpu>& ctx, const std::string& tokenizer, const samples& wanted,
                   const std::function<bool()>& stop) {
  gr::token_window window(net, ctx);
  const gr::generation how{.seed = wanted.seed};
  const auto show = [&](std::string_view prompt, const auto& write) {
    if (stop()) return;
    gr::printable_text shown;
    std::fputs(shown.add(prompt).c_str(), stdout);
    write([&](std::string_view some) {
      std::fputs(shown.add(some).c_str(), stdout);
      return std::fflush(stdout) == 0 && !stop();
    });
    std::puts(shown.finish().c_str());
  };
  if (wanted.chat_format != nullptr) {
    const gr::tokenizer words = tokenizer.empty() ? gr::byte_level_tokenizer() : read_model_tokenizer(tokenizer);
    const gr::chat_format& format = *wanted.chat_format;
    const auto answer = [&](const auto& tokens_of, const auto& print) {
      chat_writer writer(window, words, format, how);
      writer.answer(tokens_of(writer), wanted.count, print);
    };
    for (const std::string& message : wanted.prompts)
      show("> " + message + "\n", [&](const auto& print) {
        const gr::chat_message messages[] = {{gr::chat_role::user, message}};
        answer([&](auto& writer) { return writer.open(messages); }, print);
      });
    if (wanted.prompts.empty())  // an answer to nothing, which ends where answers end
      show("", [&](const auto& print) {
        answer([&](auto&) { return words.encode(format.before + format.assistant.begin); }, print);
      });
    return;
  }
  const gr::text_tokenizer words = read_text_tokenizer(tokenizer);
  for (const std::string& prompt : wanted.prompts.empty() ? std::vector<std::string>(1) : wanted.prompts)
    show(prompt, [&](const auto& print) { gr::generate(window, words, prompt, wanted.count, how, print); });
}
template void print_samples(const trained_network&, gr::context<gr::cpu>&, const std::string&, const samples&,
                            const std::function<bool()>&);

void print_samples(const fs::path& model, const samples& wanted, const std::function<bool()>& stop) {
  gr::stream stream;
  gr::host_resource heap;
  gr::pool_resource pool(heap);
  gr::context ctx{stream, pool};
  network net;
  load_network(net, ctx, model);
  print_samples(net, ctx, tokenizer_beside(model), wanted, stop);
}

}  // namespace gpt
