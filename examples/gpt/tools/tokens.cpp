// Makes token shards from text: bytes, tokens of a tokenizer.json, or of a BPE that is trained on the text.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gradus/data/token_shard.hpp>
#include <gradus/io/random_access_file.hpp>
#include <gradus/io/text_file.hpp>
#include <gradus/tokenizer/tokenizer_trainer.hpp>
#include <gradus/tokenizer/tokenizer_json.hpp>

#include "../../flags/flags.hpp"
#include "unfinished_folder.hpp"

namespace gr = gradus;
namespace fs = std::filesystem;

namespace {

struct options {
  std::vector<std::string> data, validation_data;
  std::string out, tokenizer = "bytes", layout = "nanogpt", broken = "keep", separator = "<|endoftext|>";
  std::size_t vocabulary = 4096;
  double validation = 0.1;
  std::uint64_t shard_tokens = 0;

  gr::broken_utf8 broken_utf8() const { return broken == "keep" ? gr::broken_utf8::keep : gr::broken_utf8::replace; }
};

/// Reads the command line. Throws gr::bad_flag; returns nothing if --help was asked for and printed.
std::optional<options> read_options(int argc, char** argv) {
  options o;
  gpt::flag_table flags(
      "Makes token shards from text, in the layouts of nanoGPT and llm.c.",
      {gpt::texts("data", o.data, "text files; each is a document").required(),
       gpt::named("out", o.out, "the name of a folder",
                  "folder for the shards and tokenizer.json; it must not exist, or be empty")
           .required(),
       gpt::text("tokenizer", o.tokenizer,
                 "bytes; train (a BPE, learned from --data); or a tokenizer.json of GPT-2's kind"),
       gpt::whole("vocabulary", o.vocabulary, 257, 65536,
                  "tokens of a BPE that is trained: 256 bytes, merged ones, and <|endoftext|>"),
       gpt::below_1("validation", o.validation, "share of the text, from its end, for validation; 0: none"),
       gpt::texts("validation-data", o.validation_data, "text files for validation, instead of a share"),
       gpt::choice("layout", o.layout, {"nanogpt", "llm.c"},
                   "nanogpt (nothing but uint16 tokens) or llm.c (with its header)"),
       gpt::whole("shard-tokens", o.shard_tokens, 1, std::numeric_limits<std::int32_t>::max(),
                  "most tokens of a shard (default: one shard)")
           .without_default(),
       gpt::choice("broken-utf8", o.broken, {"keep", "replace"},
                   "keep bytes that are no UTF-8, or replace them by U+FFFD as Hugging Face does"),
       gpt::text("separator", o.separator, "token of the tokenizer between documents; '': none")},
      {{"validation", "validation-data", ""}});
  if (!flags.read(argc, argv)) return std::nullopt;
  if (flags.given("vocabulary") && o.tokenizer != "train")
    throw gr::bad_flag("--vocabulary is for --tokenizer train; " + o.tokenizer + " has its own");
  if (flags.given("separator") && o.tokenizer == "bytes")
    throw gr::bad_flag("--separator: with --tokenizer bytes there is no such token; a line end comes between texts");
  if (o.tokenizer == "bytes" && o.broken != "keep")
    throw gr::bad_flag("--broken-utf8: with --tokenizer bytes, all bytes are kept");
  if (flags.given("validation-data")) o.validation = 0;
  return o;
}

/// The bytes begin .. end - 1 of a text file. They are read when they are needed; an error tells of a file that has
/// changed since it was opened.
struct text_part {
  const gr::random_access_file* file;
  std::size_t begin, end;

  std::size_t size() const { return end - begin; }
  std::string text() const {
    std::string read(size(), '\0');
    file->read(begin, std::as_writable_bytes(std::span(read)));
    return read;
  }
};

/// Opens texts, which stay open in `files`.
std::vector<text_part> open(const std::vector<std::string>& paths, std::deque<gr::random_access_file>& files) {
  std::vector<text_part> all;
  for (const std::string& path : paths) {
    const gr::random_access_file& file = files.emplace_back(path);
    gr::detail::check_text_file(file);
    all.push_back({&file, 0, file.size()});
  }
  return all;
}

/// Where the last `share` of the documents begins: a document, and a position in it after the end of a line, or else of
/// a character.
std::pair<std::size_t, std::size_t> cut(const std::vector<text_part>& documents, double share) {
  std::size_t total = 0, in = 0;
  for (const text_part& d : documents) total += d.size();
  auto left = static_cast<std::size_t>(static_cast<double>(total) * (1 - share));
  while (in + 1 < documents.size() && left >= documents[in].size()) left -= documents[in++].size();
  const std::string whole = documents[in].text();
  const std::string_view text = whole;
  std::size_t at = std::min(left, text.size());
  if (at > 0 && text[at - 1] == '\n') return {in, at};
  if (const std::size_t line = text.substr(at).find('\n'); line < 10000 && at + line + 1 < text.size())
    return {in, at + line + 1};
  while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) ++at;
  return {in, at};
}

/// Writes tokens into shards of a given size: NAME.bin, or NAME_000000.bin and so on.
class shards {
 public:
  shards(fs::path folder, std::string name, const options& o)
      : folder_(std::move(folder)), name_(std::move(name)), options_(o) {}

  void write(std::span<const std::uint16_t> tokens) {
    while (!tokens.empty()) {
      if (now_ == nullptr) next();
      const std::uint64_t room = options_.shard_tokens == 0 ? tokens.size() : options_.shard_tokens - now_->count();
      const auto some = tokens.first(static_cast<std::size_t>(std::min<std::uint64_t>(room, tokens.size())));
      now_->write(some);
      total_ += some.size();
      tokens = tokens.subspan(some.size());
      if (now_->count() == options_.shard_tokens) finish();
    }
  }
  void finish() {
    if (now_ != nullptr) now_->commit();
    now_ = nullptr;
  }
  std::uint64_t total() const { return total_; }
  std::size_t files() const { return files_; }

 private:
  void next() {
    char number[16] = "";
    if (options_.shard_tokens != 0) std::snprintf(number, sizeof number, "_%06zu", files_);
    ++files_;
    const auto layout = options_.layout == "llm.c" ? gr::shard_layout::llm_c : gr::shard_layout::nanogpt;
    now_ = std::make_unique<gr::token_shard_writer>(folder_ / (name_ + number + ".bin"), layout);
  }

  fs::path folder_;
  std::string name_;
  const options& options_;
  std::unique_ptr<gr::token_shard_writer> now_;
  std::uint64_t total_ = 0;
  std::size_t files_ = 0;
};

/// Buffers 16-bit tokens for a shard.
class token_sink {
 public:
  explicit token_sink(shards& to) : to_(to) { tokens_.reserve(most); }
  template <class Token>
  void operator()(std::span<const Token> some) {
    for (const Token t : some) {
      tokens_.push_back(static_cast<std::uint16_t>(t));
      if (tokens_.size() == most) flush();
    }
  }
  void flush() {
    to_.write(tokens_);
    tokens_.clear();
  }

 private:
  static constexpr std::size_t most = 1 << 16;
  shards& to_;
  std::vector<std::uint16_t> tokens_;
};

/// Encodes texts: as bytes, or by a BPE with a separator between documents.
class text_encoder {
 public:
  text_encoder(const gr::tokenizer* by, const options& o) {
    if (by == nullptr) return;
    if (!o.separator.empty()) separator_ = by->id_of(o.separator);
    if (!o.separator.empty() && !separator_)
      throw gr::bad_flag("--separator: the tokenizer has no token '" + o.separator + "'; '' is for none");
    encoder_.emplace(*by, gr::encode_options{.broken = o.broken_utf8(), .added_tokens = true});
  }
  void write(std::string_view text, token_sink& to) {
    if (!encoder_) to(std::span(reinterpret_cast<const unsigned char*>(text.data()), text.size()));
    else encoder_->encode(text, to);
  }
  /// Separates a document from the next one.
  void end_document(std::string_view text, token_sink& to) {
    if (separator_) to(std::span<const std::int32_t>(&*separator_, 1));
    else if (!encoder_ && !text.ends_with('\n')) write("\n", to);
  }
  std::uint64_t broken() const { return encoder_ ? encoder_->broken() : 0; }

 private:
  std::optional<gr::token_encoder> encoder_;
  std::optional<std::int32_t> separator_;
};

void encode(text_encoder& encoder, std::span<const text_part> parts, shards& to) {
  token_sink sink(to);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string text = parts[i].text();
    encoder.write(text, sink);
    if (i + 1 < parts.size()) encoder.end_document(text, sink);
  }
  sink.flush();
  to.finish();
}

void print_part(const char* name, const shards& part, std::size_t bytes) {
  std::printf("%s: %llu tokens of %zu bytes (%.2f bytes a token) in %zu file%s\n", name,
              static_cast<unsigned long long>(part.total()), bytes,
              static_cast<double>(bytes) / static_cast<double>(part.total()), part.files(),
              part.files() == 1 ? "" : "s");
}

int make_tokens(const options& o) {
  // Everything that can be wrong is found before anything is written.
  std::optional<gr::tokenizer> by;
  if (o.tokenizer != "bytes" && o.tokenizer != "train") by = gr::read_tokenizer_json(o.tokenizer);
  if (by && by->vocabulary() > 65536)
    throw gr::error(o.tokenizer + ": its " + std::to_string(by->vocabulary()) +
                    " tokens do not fit into 16 bits; shards take 65536");
  if (by) text_encoder(&*by, o);  // the separator
  if (o.tokenizer == "train" && !o.separator.empty() && o.separator != "<|endoftext|>")
    throw gr::bad_flag("--separator: a tokenizer that is trained has only <|endoftext|>; '' is for none");
  std::deque<gr::random_access_file> files;
  const std::vector<text_part> documents = open(o.data, files);
  std::vector<text_part> train, validation = open(o.validation_data, files);
  const auto [in, at] = o.validation > 0 ? cut(documents, o.validation) : std::pair(documents.size(), std::size_t{0});
  for (std::size_t i = 0; i < documents.size(); ++i) {
    const text_part& all = documents[i];
    const std::size_t end = i < in ? all.size() : i > in ? 0 : at;
    if (end > 0) train.push_back({all.file, 0, end});
    if (end < all.size()) validation.push_back({all.file, end, all.size()});
  }
  if (train.empty() || (o.validation > 0 && validation.empty()))
    throw gr::error("the text is too short for a share of " + std::to_string(o.validation) + " for validation");

  gpt::unfinished_folder folder(o.out);
  if (o.tokenizer == "train") {
    gr::tokenizer_trainer trainer({.vocabulary = o.vocabulary, .broken = o.broken_utf8()});
    for (const text_part& part : train) trainer.count(part.text());
    by = trainer.train();
    if (by->vocabulary() < o.vocabulary)
      std::printf("the text gave %zu tokens, not %zu: no pair is left that occurs twice\n", by->vocabulary(),
                  o.vocabulary);
  }
  if (by) gr::write_tokenizer_json(folder.path() / "tokenizer.json", *by);
  text_encoder encoder(by ? &*by : nullptr, o);
  const auto bytes_of = [](const std::vector<text_part>& parts) {
    std::size_t bytes = 0;
    for (const text_part& part : parts) bytes += part.size();
    return bytes;
  };
  shards train_shards(folder.path(), "train", o), validation_shards(folder.path(), "val", o);
  encode(encoder, train, train_shards);
  if (!validation.empty()) encode(encoder, validation, validation_shards);
  folder.finish();
  print_part("train", train_shards, bytes_of(train));
  if (!validation.empty()) print_part("validation", validation_shards, bytes_of(validation));
  if (encoder.broken() > 0)
    std::printf("%llu places had bytes that are no UTF-8, which were %s\n",
                static_cast<unsigned long long>(encoder.broken()), o.broken == "keep" ? "kept" : "replaced");
  std::printf("vocabulary %zu; wrote %s\n", by ? by->vocabulary() : std::size_t{256}, o.out.c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return gr::run_program("gpt_tokens", [&] {
    const auto o = read_options(argc, argv);
    return o ? make_tokens(*o) : 0;
  });
}
