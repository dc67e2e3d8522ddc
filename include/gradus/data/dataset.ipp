#pragma once
#include <algorithm>
#include <span>
#include <system_error>
#include <utility>

#include "../tokenizer/tokenizer_json.hpp"
#include "batches.hpp"
#include "dataset.hpp"

namespace gradus {

GRADUS_IMPL dataset::dataset(const dataset_files& files, std::size_t context) {
  if (files.data.empty()) throw error("dataset: no file is given");
  std::vector<token_sequence> train, validation;
  std::string tokenizer = files.tokenizer;
  std::error_code ignored;
  if (const std::filesystem::path folder = files.data.front(); std::filesystem::is_directory(folder, ignored)) {
    if (files.data.size() > 1) throw error(folder.string() + ": a folder of shards; name it alone");
    open_folder(folder, train, validation);
    if (tokenizer.empty() && std::filesystem::exists(folder / "tokenizer.json", ignored))
      tokenizer = (folder / "tokenizer.json").string();
  }
  if (!tokenizer.empty()) {
    tokenizer_ = read_tokenizer_json(tokenizer);
    vocabulary_ = tokenizer_->vocabulary();
  }
  const bool folder = !train.empty();
  if (!folder) train = open(files.data);
  const auto shards = [](const std::vector<std::string>& paths) { return is_shard(paths.front()); };
  if (!tokenizer_ && !files.validation_data.empty() && shards(files.validation_data) != (folder || shards(files.data)))
    throw error(files.validation_data.front() +
                ": name texts or shards (*.bin) for training and for validation, not both, or the " +
                "tokenizer.json that the shards were made with");
  if (!files.validation_data.empty()) validation = open(files.validation_data);
  if (validation.empty()) {
    auto parts = split_sequences(train, context, files.validation_share);
    train_ = std::move(parts.train);
    validation_ = std::move(parts.validation);
    return;
  }
  train_ = long_enough(std::move(train), context, folder);
  validation_ = long_enough(std::move(validation), context, folder);
}

GRADUS_IMPL std::size_t dataset::tokens() const {
  std::size_t n = 0;
  for (const auto* part : {&train_, &validation_})
    for (const token_sequence& s : *part) n += s.size();
  return n;
}

GRADUS_IMPL std::uint64_t dataset::fingerprint() const {
  std::uint64_t hash = 14695981039346656037u;
  std::vector<std::byte> buffer;
  const auto add = [&](std::span<const std::byte> bytes) {
    for (const std::byte b : bytes) hash = (hash ^ static_cast<std::uint64_t>(b)) * 1099511628211u;
  };
  constexpr std::size_t most = std::size_t{1} << 26, pieces = 1024, piece = most / pieces;  // bytes
  for (const auto* part : {&train_, &validation_})
    for (const token_sequence& s : *part) {
      const std::size_t width = s.token_bytes(), all = s.size() * width;
      const bool whole = all <= most;
      const std::size_t count = whole ? (all + piece - 1) / piece : pieces;
      for (std::size_t p = 0; p < count; ++p) {
        const std::size_t at = whole ? p * piece : (all - piece) / (pieces - 1) * p;
        const std::size_t before = at % width, bytes = std::min(piece, all - at);  // a piece may begin inside a token
        const token_sequence some = s.part(at / width, (before + bytes + width - 1) / width);
        add(some.read(buffer).bytes().subspan(before, bytes));
      }
    }
  return hash;
}

GRADUS_IMPL void dataset::check_tokens(std::size_t vocabulary) const {
  for (const auto* part : {&train_, &validation_})
    for (const token_sequence& s : *part) s.check_vocabulary(vocabulary);
}

GRADUS_IMPL std::string dataset::replaced_files() const {
  std::string names;
  const auto add = [&](const std::filesystem::path& path) { names += (names.empty() ? "" : ", ") + path.string(); };
  for (const auto& file : files_)
    if (file->replaced()) add(file->path());
  for (const text_state& text : texts_)
    if (state_of(text.path) != text) add(text.path);
  return names;
}

GRADUS_IMPL bool dataset::is_shard(const std::filesystem::path& path) { return path.extension() == ".bin"; }

GRADUS_IMPL void dataset::open_folder(const std::filesystem::path& folder, std::vector<token_sequence>& train,
                                      std::vector<token_sequence>& validation) {
  std::vector<std::filesystem::path> paths;
  std::error_code problem;
  for (std::filesystem::directory_iterator entry(folder, problem), end; !problem && entry != end;
       entry.increment(problem))
    if (is_shard(entry->path())) paths.push_back(entry->path());
  if (problem) throw error(folder.string() + ": cannot be read: " + problem.message());
  std::ranges::sort(paths);
  for (const auto& path : paths)
    (path.filename().string().find("val") == std::string::npos ? train : validation).push_back(open_shard(path));
  if (train.empty())
    throw error(
        folder.string() +
        ": has no shards to train on (*.bin without 'val' in the name); name text files, or a folder of gpt_tokens");
}

GRADUS_IMPL token_sequence dataset::open_shard(const std::filesystem::path& path) {
  const auto& file = files_.emplace_back(std::make_shared<const random_access_file>(path));
  std::vector<std::byte> head(std::min<std::size_t>(file->size(), 1024));
  file->read(0, head);
  const shard_layout layout = detail::layout_of_shard(path, file->size(), head);
  const std::size_t begin = detail::first_token_of_shard(layout);
  return detail::has_wide_tokens(layout) ? token_sequence::in_file<std::int32_t>(file, begin, path.string())
                                         : token_sequence::in_file<std::uint16_t>(file, begin, path.string());
}

template <class Token>
token_sequence dataset::kept(std::vector<Token> tokens, const std::string& name) {
  auto owner = std::make_shared<const std::vector<Token>>(std::move(tokens));
  token_sequence all(*owner, name);
  in_memory_.push_back(std::move(owner));
  return all;
}

GRADUS_IMPL dataset::text_state dataset::state_of(const std::filesystem::path& path) {
  std::error_code problem;
  text_state s{path, 0, {}};
  if (std::filesystem::is_other(path, problem)) return s;  // a pipe is read once
  s.size = std::filesystem::file_size(path, problem);
  s.modified = std::filesystem::last_write_time(path, problem);
  return s;
}

// Checks all files before the slow work begins.
GRADUS_IMPL std::size_t dataset::check_texts(const std::vector<std::string>& paths) {
  std::error_code problem;
  std::size_t size = 0;
  for (const std::string& path : paths) {
    if (std::filesystem::is_other(path, problem)) continue;
    const random_access_file file(path);
    detail::check_text_file(file);
    size += file.size();
  }
  return size;
}

GRADUS_IMPL std::unique_ptr<const random_access_file> dataset::open_text(const std::string& path) {
  texts_.push_back(state_of(path));
  auto file = std::make_unique<const random_access_file>(path);
  detail::check_text_file(*file);
  return file;
}

template <class Token>
token_sequence dataset::encoded(const std::vector<std::string>& paths, const std::string& name) {
  check_texts(paths);
  std::vector<Token> all;
  token_encoder encoder(*tokenizer_);
  const auto begin = tokenizer_->begin_token(), end = tokenizer_->end_token();
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (i > 0 && end) all.push_back(static_cast<Token>(*end));
    if (begin) all.push_back(static_cast<Token>(*begin));
    encoder.encode(open_text(paths[i])->text(), [&](std::span<const std::int32_t> some) {
      for (const std::int32_t t : some) all.push_back(static_cast<Token>(t));
    });
  }
  return kept(std::move(all), name);
}

// Joins the texts, because a single one may be shorter than a window.
GRADUS_IMPL token_sequence dataset::joined(const std::vector<std::string>& paths, const std::string& name) {
  std::vector<std::uint8_t> all;
  all.reserve(check_texts(paths) + paths.size());  // plus line ends
  for (const std::string& path : paths) {
    const auto text = open_text(path);
    if (!all.empty() && all.back() != '\n') all.push_back('\n');
    const std::size_t at = all.size();
    all.resize(at + text->size());
    text->read(0, std::as_writable_bytes(std::span(all).subspan(at)));
  }
  return kept(std::move(all), name);
}

GRADUS_IMPL std::vector<token_sequence> dataset::open(const std::vector<std::string>& paths) {
  const auto shards = static_cast<std::size_t>(std::ranges::count_if(paths, is_shard));
  if (shards != 0 && shards != paths.size())
    throw error(paths.front() + " and the others: name texts or shards (*.bin), not both");
  std::vector<token_sequence> sequences;
  if (shards != 0) {
    for (const std::string& path : paths) sequences.push_back(open_shard(path));
    return sequences;
  }
  const std::string name = paths.front() + (paths.size() > 1 ? " and the others" : "");
  if (tokenizer_) {
    sequences.push_back(vocabulary_ <= 65536 ? encoded<std::uint16_t>(paths, name)
                                             : encoded<std::int32_t>(paths, name));
    return sequences;
  }
  bytes_ = true;
  vocabulary_ = 256;
  if (paths.size() > 1) {
    sequences.push_back(joined(paths, name));
    return sequences;
  }
  const auto& file = files_.emplace_back(std::make_shared<const random_access_file>(paths.front()));
  detail::check_text_file(*file);
  sequences.push_back(token_sequence::in_file<std::uint8_t>(file, 0, name));
  return sequences;
}

GRADUS_IMPL std::vector<token_sequence> dataset::long_enough(std::vector<token_sequence> sequences, std::size_t context,
                                                             bool may_be_short) {
  const auto is_short = [&](const token_sequence& s) { return s.size() <= context; };
  if (may_be_short && !std::ranges::all_of(sequences, is_short)) std::erase_if(sequences, is_short);
  for (const token_sequence& s : sequences)
    if (s.size() <= context)
      throw error(s.name() + ": too short: " + std::to_string(s.size()) + " tokens; a context of " +
                  std::to_string(context) + " needs at least " + std::to_string(context + 1));
  return sequences;
}

}  // namespace gradus
