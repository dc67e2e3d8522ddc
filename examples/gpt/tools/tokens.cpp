// Makes token shards from text: bytes, tokens of a tokenizer.json, or of a tokenizer that is trained on the text.

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
#include <gradus/tokenizer/text_settings_json.hpp>
#include <gradus/tokenizer/tokenizer_json.hpp>
#include <gradus/tokenizer/tokenizer_trainer.hpp>

#include "../../flags/flags.hpp"
#include "unfinished_folder.hpp"

namespace gr = gradus;
namespace fs = std::filesystem;

namespace {

struct options {
  std::vector<std::string> data, validation_data;
  std::string out, tokenizer = "bytes", layout, broken = "keep", separator, kind = "bpe";
  std::size_t vocabulary = 0, characters = 0;
  double validation = 0.1;
  std::uint64_t shard_tokens = 0;
  bool lowercase = true, default_separator = true;

  bool train() const { return vocabulary > 0; }
  bool tokenizer_alone() const { return fs::path(out).extension() == ".json"; }
  gr::broken_utf8 broken_utf8() const { return broken == "keep" ? gr::broken_utf8::keep : gr::broken_utf8::replace; }
  gr::tokenizer_training training() const {
    gr::tokenizer_training t{
        .vocabulary = vocabulary, .characters = characters, .broken = broken_utf8(), .lowercase = lowercase};
    const auto kinds = names_of(t.kind);
    t.kind = static_cast<gr::tokenizer_kind>(std::ranges::find(kinds, kind) - kinds.begin());
    return t;
  }
};

/// Throws gr::bad_flag for flags that do not go together.
void check(const options& o, const gpt::flag_table& flags) {
  const auto only = [&](const char* flag, bool fits, const std::string& why) {
    if (flags.given(flag) && !fits) throw gr::bad_flag("--" + std::string(flag) + why);
  };
  for (const char* flag : {"kind", "characters", "lowercase"}) only(flag, o.train(), " is for --train N");
  only("characters", o.kind != "bpe", ": a BPE starts from bytes; it is for --kind wordpiece and unigram");
  only("lowercase", o.kind == "wordpiece", " is for --kind wordpiece");
  const bool bytes = o.tokenizer == "bytes" && !o.train();
  only("separator", !bytes, ": bytes have no such token; a line end comes between texts");
  if (bytes && o.broken != "keep") throw gr::bad_flag("--broken-utf8: of bytes, all are kept");
  if (!o.tokenizer_alone()) return;
  only("out", o.train(), ": a tokenizer.json alone is written by --train N; shards need a folder");
  for (const char* flag : {"validation", "validation-data", "layout", "shard-tokens", "separator"})
    only(flag, false, " is for shards; --out " + o.out + " is for a tokenizer alone");
}

/// Reads the command line. Throws gr::bad_flag; returns nothing if --help was asked for and printed.
std::optional<options> read_options(int argc, char** argv) {
  options o;
  gpt::flag_table flags(
      "Makes token shards from text, in the layouts of nanoGPT and llm.c; trains tokenizers.",
      {gpt::texts("data", o.data, "text files; each is a document").path().required(),
       gpt::named("out", o.out, "the name of a folder",
                  "folder for the shards and tokenizer.json; it must not exist, or be empty. With --train, NAME.json: "
                  "the tokenizer alone, trained on all of the text")
           .required(),
       gpt::text("tokenizer", o.tokenizer, "bytes, or a tokenizer.json").path(),
       gpt::whole("train", o.vocabulary, 1, std::size_t{1} << 24,
                  "tokens of a tokenizer that is learned from --data, instead of --tokenizer")
           .without_default(),
       gpt::choice("kind", o.kind, {"bpe", "wordpiece", "unigram"},
                   "of the tokenizer that is learned: as GPT-2's, BERT's or T5's"),
       gpt::whole("characters", o.characters, 1, std::size_t{1} << 21,
                  "wordpiece, unigram: only so many characters, the most frequent ones, are tokens (default: all)")
           .without_default(),
       gpt::on_off("lowercase", o.lowercase, "wordpiece: without case and accents"),
       gpt::below_1("validation", o.validation, "share of the text, from its end, for validation; 0: none"),
       gpt::texts("validation-data", o.validation_data, "text files for validation, instead of a share").path(),
       gpt::choice(
           "layout", o.layout, {"nanogpt", "llm.c"},
           "nanogpt (nothing but uint16 tokens), the default for up to 65536 tokens, or llm.c (with its header), "
           "which has 32 bits for larger vocabularies"),
       gpt::whole("shard-tokens", o.shard_tokens, 1, std::numeric_limits<std::int32_t>::max(),
                  "most tokens of a shard (default: one shard)")
           .without_default(),
       gpt::choice("broken-utf8", o.broken, {"keep", "replace"},
                   "keep bytes that are no UTF-8, or replace them by U+FFFD as Hugging Face does"),
       gpt::text("separator", o.separator,
                 "token of the tokenizer between documents; '': none (default: the one that ends a text, or [SEP])")},
      {{"validation", "validation-data", ""}, {"tokenizer", "train", ""}});
  if (!flags.read(argc, argv)) return std::nullopt;
  check(o, flags);
  o.default_separator = !flags.given("separator");
  if (flags.given("validation-data") || o.tokenizer_alone()) o.validation = 0;
  return o;
}

/// The bytes begin .. end - 1 of a text file. They are read when they are needed; an error tells of a file that has
/// changed since it was opened.
struct text_part {
  const gr::random_access_file* file;
  std::size_t begin, end;

  std::size_t size() const { return end - begin; }
  /// At most `count` of its bytes, from `at` on.
  std::string text(std::size_t at, std::size_t count) const {
    std::string read(std::min(count, size() - at), '\0');
    file->read(begin + at, std::as_writable_bytes(std::span(read)));
    return read;
  }
};

/// Where a text may be cut, so that its pieces have the tokens of the whole: bytes anywhere; by the patterns of GPT-2,
/// Llama 3 and Qwen 2, which look at no word but the next, before a letter after a line's end after a letter. Others
/// may look at the whole text.
class text_cuts {
 public:
  explicit text_cuts(const gr::tokenizer* by) : bytes_(by == nullptr), lines_(by != nullptr && splits_lines(*by)) {}

  /// Calls f(piece) for the pieces of a text, most of which have 1 MiB.
  template <class F>
  void for_each_piece(const text_part& of, const F& f) const {
    constexpr std::size_t most = std::size_t{1} << 20;
    std::string held;
    for (std::size_t at = 0; at < of.size();) {
      const std::string more = of.text(at, std::max(most, held.size()));
      at += more.size();
      held += more;
      const std::size_t end = at == of.size() || bytes_ ? held.size() : lines_ ? last(held) : 0;
      if (end == 0) continue;
      f(std::string_view(held).substr(0, end));
      held.erase(0, end);
    }
  }

 private:
  static bool is_letter(char c) { return (c | 32) >= 'a' && (c | 32) <= 'z'; }
  static bool splits_lines(const gr::tokenizer& by) {
    const gr::tokenizer_parts& parts = by.parts();
    const auto* const bytes = parts.pre_tokenizers.empty()
                                  ? nullptr
                                  : std::get_if<gr::pre_tokenizers::byte_level>(&parts.pre_tokenizers.back());
    if (bytes == nullptr || bytes->add_prefix_space || !parts.normalizers.empty()) return false;
    if (parts.pre_tokenizers.size() > 1) {
      const auto* const split = std::get_if<gr::pre_tokenizers::pattern_split>(&parts.pre_tokenizers.front());
      if (parts.pre_tokenizers.size() > 2 || split == nullptr || bytes->use_regex || split->invert ||
          split->behavior != gr::split_behavior::isolated || !split->pattern.regular_expression() ||
          std::ranges::find(gr::word_patterns, split->pattern.text()) == gr::word_patterns.end())
        return false;
    } else if (!bytes->use_regex) {
      return false;
    }
    return std::ranges::none_of(parts.added_tokens, [](const gr::added_token& t) {
      return t.text.find('\n') != t.text.npos || (t.lstrip && is_letter(t.text.front()));
    });
  }
  /// The last place to cut; 0: none.
  static std::size_t last(std::string_view text) {
    for (std::size_t end = text.rfind('\n'); end != text.npos && end > 0; end = text.rfind('\n', end - 1))
      if (end + 1 < text.size() && is_letter(text[end - 1]) && is_letter(text[end + 1])) return end + 1;
    return 0;
  }

  bool bytes_, lines_;
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
  const text_part& document = documents[in];
  std::size_t at = std::min(left, document.size());
  if (at > 0 && document.text(at - 1, 1) == "\n") return {in, at};
  const std::string text = document.text(at, 10000);
  if (const std::size_t line = text.find('\n'); line != text.npos && at + line + 1 < document.size())
    return {in, at + line + 1};
  const auto is_inside = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; };
  return {in, at + static_cast<std::size_t>(std::ranges::find_if_not(text, is_inside) - text.begin())};
}

/// Writes tokens into shards of a given size: NAME.bin, or NAME_000000.bin and so on.
class shards {
 public:
  shards(fs::path folder, std::string name, std::uint64_t shard_tokens, gr::shard_layout layout)
      : folder_(std::move(folder)), name_(std::move(name)), shard_tokens_(shard_tokens), layout_(layout) {}

  void write(std::span<const std::int32_t> tokens) {
    while (!tokens.empty()) {
      if (now_ == nullptr) next();
      const std::uint64_t room = shard_tokens_ == 0 ? tokens.size() : shard_tokens_ - now_->count();
      const auto some = tokens.first(static_cast<std::size_t>(std::min<std::uint64_t>(room, tokens.size())));
      now_->write(some);
      total_ += some.size();
      tokens = tokens.subspan(some.size());
      if (now_->count() == shard_tokens_) finish();
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
    if (shard_tokens_ != 0) std::snprintf(number, sizeof number, "_%06zu", files_);
    ++files_;
    now_ = std::make_unique<gr::token_shard_writer>(folder_ / (name_ + number + ".bin"), layout_);
  }

  fs::path folder_;
  std::string name_;
  std::uint64_t shard_tokens_;
  gr::shard_layout layout_;
  std::unique_ptr<gr::token_shard_writer> now_;
  std::uint64_t total_ = 0;
  std::size_t files_ = 0;
};

/// The layout of shards of a vocabulary. Throws gr::bad_flag if the one that was asked for has no room for its tokens.
gr::shard_layout layout_for(std::size_t vocabulary, const options& o) {
  if (vocabulary > 65536 && o.layout == "nanogpt")
    throw gr::bad_flag("--layout nanogpt has 16 bits a token, which are too few for a vocabulary of " +
                       std::to_string(vocabulary) + "; llm.c's has 32 where they are needed");
  return vocabulary > 65536    ? gr::shard_layout::llm_c_32
         : o.layout == "llm.c" ? gr::shard_layout::llm_c
                               : gr::shard_layout::nanogpt;
}

/// Buffers tokens for a shard.
class token_sink {
 public:
  explicit token_sink(shards& to) : to_(to) { tokens_.reserve(most); }
  template <class Token>
  void operator()(std::span<const Token> some) {
    for (const Token t : some) {
      tokens_.push_back(t);
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
  std::vector<std::int32_t> tokens_;
};

/// Encodes texts: as bytes, or by a tokenizer with a separator between documents.
class text_encoder {
 public:
  text_encoder(const gr::tokenizer* by, const options& o) : cuts_(by) {
    if (by == nullptr) return;
    if (!o.separator.empty()) separator_ = by->id_of(o.separator);
    else if (o.default_separator) separator_ = by->end_token() ? by->end_token() : by->id_of("[SEP]");
    if (!separator_ && !o.separator.empty())
      throw gr::bad_flag("--separator: the tokenizer has no token '" + o.separator + "'; '' is for none");
    if (!separator_ && o.default_separator && o.data.size() > 1)
      throw gr::bad_flag("--separator is needed: the tokenizer has no token that ends a text; '' is for none");
    encoder_.emplace(*by, gr::encode_options{.broken = o.broken_utf8(), .added_tokens = true});
  }
  void write(const text_part& document, token_sink& to) {
    cuts_.for_each_piece(document, [&](std::string_view text) {
      if (!encoder_) to(std::span(reinterpret_cast<const unsigned char*>(text.data()), text.size()));
      else encoder_->encode(text, to);
    });
  }
  /// Separates a document from the next one.
  void end_document(const text_part& document, token_sink& to) {
    static constexpr unsigned char line_end[] = {'\n'};
    if (separator_) to(std::span<const std::int32_t>(&*separator_, 1));
    else if (!encoder_ && document.text(document.size() - 1, 1) != "\n") to(std::span<const unsigned char>(line_end));
  }
  std::uint64_t broken() const { return encoder_ ? encoder_->broken() : 0; }

 private:
  text_cuts cuts_;
  std::optional<gr::token_encoder> encoder_;
  std::optional<std::int32_t> separator_;
};

void encode(text_encoder& encoder, std::span<const text_part> parts, shards& to) {
  token_sink sink(to);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    encoder.write(parts[i], sink);
    if (i + 1 < parts.size()) encoder.end_document(parts[i], sink);
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
  std::optional<gr::tokenizer_trainer> trainer;
  if (o.train()) try {
      trainer.emplace(o.training());
      by = trainer->train();  // the special tokens
    } catch (const gr::error& e) { throw gr::bad_flag(std::string("--train: ") + e.what()); }
  else if (o.tokenizer != "bytes") by = gr::read_tokenizer_json(o.tokenizer);
  if (by) text_encoder(&*by, o);  // the separator
  layout_for(o.train() ? o.vocabulary : by ? by->vocabulary() : 256, o);
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

  const auto learn = [&] {
    const text_cuts cuts(&*by);
    for (const text_part& part : train) cuts.for_each_piece(part, [&](std::string_view text) { trainer->count(text); });
    by = trainer->train();
    if (by->vocabulary() < o.vocabulary)
      std::printf("the text gave %zu tokens, not %zu: no more parts of words occur twice\n", by->vocabulary(),
                  o.vocabulary);
  };
  if (!o.tokenizer_alone()) gpt::check_new_folder(o.out);
  if (o.tokenizer_alone()) {
    if (fs::exists(o.out)) throw gr::error(o.out + ": is there already; name a new file");
    learn();
    gr::write_tokenizer_json(o.out, *by);
    std::printf("vocabulary %zu; wrote %s\n", by->vocabulary(), o.out.c_str());
    return 0;
  }
  gpt::unfinished_folder folder(o.out);
  if (o.train()) learn();
  if (by) {
    gr::write_tokenizer_json(folder.path() / "tokenizer.json", *by);
    gr::write_text_settings(folder.path(), by->settings());
  }
  text_encoder encoder(by ? &*by : nullptr, o);
  const auto bytes_of = [](const std::vector<text_part>& parts) {
    std::size_t bytes = 0;
    for (const text_part& part : parts) bytes += part.size();
    return bytes;
  };
  const gr::shard_layout layout = layout_for(by ? by->vocabulary() : 256, o);
  shards train_shards(folder.path(), "train", o.shard_tokens, layout),
      validation_shards(folder.path(), "val", o.shard_tokens, layout);
  encode(encoder, train, train_shards);
  if (!validation.empty()) encode(encoder, validation, validation_shards);
  folder.finish();
  print_part("train", train_shards, bytes_of(train));
  if (!validation.empty()) print_part("validation", validation_shards, bytes_of(validation));
  if (encoder.broken() > 0)
    std::printf("%llu places had bytes that are no UTF-8, which were %s\n",
                static_cast<unsigned long long>(encoder.broken()),
                o.broken == "keep" && by->keeps_broken() ? "kept" : "replaced");
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
