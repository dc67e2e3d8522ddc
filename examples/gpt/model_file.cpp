#include "model_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include <gradus/core/printable.hpp>
#include <gradus/generate/token_window.hpp>
#include <gradus/io/safetensors.hpp>
#include <gradus/run/run_folder.hpp>
#include <gradus/tokenizer/tokenizer_json.hpp>
#include <gradus/tokenizer/tokenizer_trainer.hpp>

#include "../llama/huggingface.hpp"
#include "model_folder.hpp"
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

std::vector<std::string> adapted_layers(const std::string& words) { return layers_named<network>(words, "--lora-on"); }

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
  const fs::path path = (is_folder(model) ? model : model.parent_path()) / "tokenizer.json";
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

void print_sample(const network& net, gr::context<gr::cpu>& ctx, const std::string& tokenizer, int count,
                  std::uint64_t seed, const std::function<bool()>& stop) {
  gr::token_window window(net, ctx);
  gr::printable_text shown;
  gr::generate(window, read_text_tokenizer(tokenizer), "", count, {.seed = seed}, [&](std::string_view some) {
    std::fputs(shown.add(some).c_str(), stdout);
    return std::fflush(stdout) == 0 && !stop();
  });
  std::puts(shown.finish().c_str());
}

void print_sample(const fs::path& model, int count, std::uint64_t seed, const std::function<bool()>& stop) {
  gr::stream stream;
  gr::host_resource heap;
  gr::pool_resource pool(heap);
  gr::context ctx{stream, pool};
  network net;
  load_network(net, ctx, model);
  print_sample(net, ctx, tokenizer_beside(model), count, seed, stop);
}

// The tokenizer in a GGUF file, in a folder that is removed with the last copy of the pointer.
static std::shared_ptr<const fs::path> unpacked_tokenizer(const fs::path& file) {
  const gr::gguf_file from(file);
  std::string name = (fs::temp_directory_path() / "gradus-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw gr::error(name + ": cannot be made: " + std::strerror(errno));
  const std::shared_ptr<const fs::path> folder(new fs::path(name), [](const fs::path* p) {
    std::error_code ignored;
    fs::remove_all(*p, ignored);
    delete p;
  });
  write_tokenizer_of_gguf(from, sizes.context, *folder);
  return folder;
}

starting_model::starting_model(const options& o) : options_(o) {
  if (o.init.empty()) return;
  if (!o.resume.empty()) {  // the tokenizer is the run's own, and the weights are the checkpoint's, but for adapters
    encoder_ = tokenizer_beside(fs::path(o.resume) / "checkpoint.safetensors");
    if (adapter_rank == 0) return;
  }
  const fs::path path = o.init;
  std::error_code ignored;
  if (!is_there(path)) throw gr::error("--init: " + o.init + ": no such file or folder");
  named_ = o.init;
  source_ = path;
  if (!fs::is_directory(path, ignored)) {
    if (format_to_read(path) == model_format::gguf) unpacked_ = unpacked_tokenizer(path);
  } else if (!is_there(path / "config.json")) {
    source_ = model_in(path);
    if (!is_there(source_))
      throw gr::error("--init: " + o.init +
                      ": has neither config.json, as a model of Hugging Face's, nor model.safetensors, as a run");
    named_ = source_.string();
  }
  if (!o.resume.empty()) return;
  encoder_ = tokenizer_beside(unpacked_ ? *unpacked_ / "" : source_);
  if (encoder_.empty()) return;
  tokenizer_ = read_model_tokenizer(encoder_);
  if (same_tokenizer(*tokenizer_, gr::byte_level_tokenizer())) encoder_.clear();
}

run_data starting_model::open_data() const {
  const auto open = [&]<bool Packed>(std::bool_constant<Packed>) {
    if constexpr (Packed) return open_examples();
    else return text_data(open_texts());
  };
  return open(std::bool_constant<packed>{});
}

fs::path starting_model::tokenizer_config() const {
  const std::string& encoder = options_.files.tokenizer.empty() ? encoder_ : options_.files.tokenizer;
  const fs::path path = fs::path(encoder).parent_path() / "tokenizer_config.json";
  return encoder.empty() || !is_there(path) ? fs::path() : path;
}

example_data starting_model::open_examples() const {
  const std::string& named = options_.files.tokenizer;
  std::optional<gr::tokenizer> words;
  if (!named.empty() || !encoder_.empty()) words = read_model_tokenizer(named.empty() ? encoder_ : named);
  if (words && tokenizer_ && !same_tokenizer(*words, *tokenizer_))
    throw gr::error("--init: " + named_ + ": its tokenizer is another than that of the data; leave out --tokenizer");
  std::optional<gr::chat_format> format;
  if (!options_.chat_format.empty()) format = gr::chat_format_named(options_.chat_format);
  else if (const fs::path config = tokenizer_config(); !config.empty()) {
    try {
      format = gr::read_chat_format(config);
    } catch (const gr::error&) {}  // a chat is then refused with the names of formats
  }
  return example_data(options_, std::move(words), std::move(format));
}

gr::dataset starting_model::open_texts() const {
  gr::dataset_files files = options_.files;
  const bool shards_have_one = !files.data.empty() && is_there(fs::path(files.data.front()) / "tokenizer.json");
  if (files.tokenizer.empty() && !shards_have_one) files.tokenizer = encoder_;
  gr::dataset data(files, sizes.context);
  const bool own = source_.empty() || format_to_read(source_) == model_format::own;
  if (!own && options_.resume.empty() && !tokenizer_ && data.bytes())
    throw gr::error("--init: " + named_ + ": has no tokenizer.json; name one with --tokenizer");
  if (tokenizer_ && data.tokenizer() != nullptr && !same_tokenizer(*tokenizer_, *data.tokenizer()))
    throw gr::error("--init: " + named_ + ": its tokenizer is another than that of the data; " +
                    (shards_have_one ? "make the shards with its tokenizer.json" : "leave out --tokenizer"));
  if (const std::size_t tokens = data.vocabulary(); tokens > sizes.vocabulary)
    throw gr::error("the tokenizer has " + std::to_string(tokens) + " tokens, and this program was compiled for " +
                    std::to_string(sizes.vocabulary) + "; give scripts/train.sh --vocabulary " +
                    std::to_string(tokens));
  data.check_tokens(sizes.vocabulary);
  return data;
}

}  // namespace gpt
