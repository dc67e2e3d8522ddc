#include "starting_model.hpp"

#include <algorithm>
#include <string>
#include <system_error>
#include <type_traits>

#include <gradus/core/platform.hpp>
#include <gradus/data/chat_format.hpp>
#include <gradus/run/program.hpp>
#include <gradus/tokenizer/text_settings_json.hpp>
#include <gradus/tokenizer/tokenizer_json.hpp>
#include <gradus/tokenizer/tokenizer_trainer.hpp>

#include "model_folder.hpp"
#include "tools/gguf.hpp"
#include "tools/huggingface_folder.hpp"

namespace gpt {

namespace fs = std::filesystem;

// The tokenizer in a GGUF file, in a folder that is removed with the last copy of the pointer.
static std::shared_ptr<const fs::path> unpacked_tokenizer(const fs::path& file) {
  const gr::gguf_file from(file);
  const std::string name = "gradus-" + std::to_string(gr::platform::process_number()) + "-";
  fs::path made;
  std::error_code problem;
  for (int n = 0;; ++n) {
    made = fs::temp_directory_path() / (name + std::to_string(n));
    if (fs::create_directory(made, problem)) break;
    if (problem && problem != std::errc::file_exists)
      throw gr::error(made.string() + ": cannot be made: " + problem.message());
  }
  fs::permissions(made, fs::perms::owner_all);
  const std::shared_ptr<const fs::path> folder(new fs::path(made), [](const fs::path* p) {
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
    beside_ = fs::path(o.resume) / "checkpoint.safetensors";
    encoder_ = tokenizer_beside(beside_);
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
  beside_ = unpacked_ ? *unpacked_ / "" : is_folder(source_) ? source_ / "" : source_;
  encoder_ = tokenizer_beside(beside_);
  if (encoder_.empty()) return;
  tokenizer_ = read_model_tokenizer(encoder_);
  if (same_tokenizer(*tokenizer_, gr::byte_level_tokenizer()) && !tokenizer_->end_token()) encoder_.clear();
}

run_data starting_model::open_data() const {
  const bool a_folder = std::ranges::any_of(options_.files.data, is_folder);  // without shards, says the dataset
  if (holds_examples(options_.files.data) != packed && (packed || !a_folder))
    throw gr::bad_flag(
        packed ? "--data: this program was compiled for examples; scripts/train.sh compiles another for texts"
               : "--data: this program was compiled for texts and shards; scripts/train.sh compiles "
                 "another for examples");
  const auto open = [&]<bool Packed>(std::bool_constant<Packed>) {
    if constexpr (Packed) return open_examples();
    else return text_data(open_texts());
  };
  return open(std::bool_constant<packed>{});
}

gr::text_settings starting_model::text_settings(const gr::tokenizer* of_data) const {
  gr::text_settings said;
  if (!beside_.empty()) said = gr::read_text_settings(beside_.parent_path());
  if (of_data == nullptr || of_data->settings().files.empty()) return said;
  // Another tokenizer's files replace the model's; what the model says of generation stays if that ends there, too.
  gr::text_settings other = of_data->settings();
  const auto end = of_data->end_token();
  if (end && std::ranges::find(said.end_ids, *end) == said.end_ids.end()) return other;
  for (const char* of_model : {"generation_config.json", "token_ids.json"})
    if (const auto file = said.files.find(of_model); file != said.files.end()) other.files[of_model] = file->second;
  return other;
}

void starting_model::check_resumed() const {
  const fs::path checkpoint = fs::path(options_.resume) / "checkpoint.safetensors";
  if (options_.resume.empty() || !is_there(checkpoint)) return;
  const gr::run_metadata about = gr::read_metadata(checkpoint);
  if (about.all().contains("base_fingerprint") && about.number<std::uint32_t>("base_fingerprint") != fingerprint_)
    throw gr::error("--resume: " + options_.resume + ": its adapters belong to what " + named_ +
                    " was; it holds another model now");
}

example_data starting_model::open_examples() const {
  const std::string& named = options_.files.tokenizer;
  std::optional<gr::tokenizer> words;
  if (!named.empty() || !encoder_.empty()) words = read_model_tokenizer(named.empty() ? encoder_ : named);
  if (words && tokenizer_ && !same_tokenizer(*words, *tokenizer_))
    throw gr::error("--init: " + named_ + ": its tokenizer is another than that of the data; leave out --tokenizer");
  const bool own = source_.empty() || format_to_read(source_) == model_format::own;
  if (!own && options_.resume.empty() && !words && !tokenizer_)
    throw gr::error("--init: " + named_ + ": has no tokenizer.json; name one with --tokenizer");
  if (words && words->settings().files.empty()) words->set(text_settings(nullptr));
  std::optional<gr::chat_format> format;
  if (!options_.chat_format.empty()) format = gr::chat_format_named(options_.chat_format);
  else {
    try {
      format = gr::chat_format_of(text_settings(words ? &*words : nullptr));
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
