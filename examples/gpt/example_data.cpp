#include "example_data.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <span>

#include <gradus/io/crc32c.hpp>
#include <gradus/run/program.hpp>

namespace gpt {

namespace {

std::size_t positions_of(const std::vector<gr::token_example>& examples) {
  std::size_t n = 0;
  for (const gr::token_example& e : examples) n += e.positions();
  return n;
}
std::size_t positions_of(const gr::token_examples& of) { return positions_of(of.examples) + positions_of(of.rejected); }
// A pair fills a batch.
std::vector<std::size_t> lengths_of(const gr::token_examples& of) {
  std::vector<std::size_t> lengths;
  for (const gr::token_example& e : of.examples)
    lengths.push_back(preferences ? example_data::most_positions : e.positions());
  return lengths;
}
gr::packed_batch row_of(const std::vector<gr::token_example>& examples, std::span<const std::size_t> documents) {
  std::size_t n = 0;
  for (const std::size_t d : documents) n += examples[d].positions();
  return gr::pack_batch(examples, documents, n);
}
template <class Batch>
Batch batch_of(const gr::token_examples& of, std::span<const std::size_t> documents) {
  if constexpr (std::is_same_v<Batch, preference<gr::packed_batch>>)
    return {row_of(of.examples, documents), row_of(of.rejected, documents)};
  else return row_of(of.examples, documents);
}
std::uint32_t checksum_of(const gr::token_examples& of) {
  gr::crc32c sum;
  for (const auto* examples : {&of.examples, &of.rejected})
    for (const gr::token_example& e : *examples) {
      sum.add(std::as_bytes(std::span(e.tokens)));
      sum.add(std::as_bytes(std::span(e.is_target)));
    }
  return sum.value();
}
// The last `count` examples, which `of` loses.
gr::token_examples split_off(gr::token_examples& of, std::size_t count) {
  gr::token_examples last;
  for (auto part : {&gr::token_examples::examples, &gr::token_examples::rejected}) {
    auto& from = of.*part;
    if (from.empty()) continue;
    const auto first = from.end() - static_cast<std::ptrdiff_t>(count);
    (last.*part).assign(first, from.end());
    from.erase(first, from.end());
  }
  return last;
}

}  // namespace

example_data::example_data(const options& o, std::optional<gr::tokenizer> tokenizer,
                           std::optional<gr::chat_format> format)
    : tokenizer_(std::move(tokenizer)), format_(std::move(format)) {
  gr::example_encoder encoder(this->tokenizer(), format_);
  const gr::long_examples longer = o.long_examples == "skip" ? gr::long_examples::skip : gr::long_examples::cut;
  const auto read = [&](const std::vector<std::string>& files) {
    const std::vector<std::filesystem::path> paths(files.begin(), files.end());
    gr::token_examples found = gr::read_token_examples(paths, encoder, sizes.context + 1, longer);
    if (found.examples.empty()) throw gr::error(files.front() + ": has no example with something to learn");
    if (found.rejected.empty() == preferences)
      throw gr::bad_flag(preferences
                             ? "--dpo: " + files.front() + ": has no preferences (chosen, rejected)"
                             : files.front() + ": has preferences (chosen, rejected); train on them by --dpo 0.1");
    for (const auto* examples : {&found.examples, &found.rejected})
      for (const gr::token_example& e : *examples)
        for (const std::int32_t id : e.tokens)
          if (static_cast<gr::index_t>(id) >= sizes.vocabulary)
            throw gr::error(files.front() + ": has the token " + std::to_string(id) +
                            ", and the model's vocabulary is " + std::to_string(sizes.vocabulary));
    return found;
  };
  train_ = read(o.files.data);
  const auto& all = train_.examples;
  if (!o.files.validation_data.empty()) {
    validation_ = read(o.files.validation_data);
  } else {
    const auto share = static_cast<std::size_t>(std::ceil(o.files.validation_share * static_cast<double>(all.size())));
    if (all.size() < 2)
      throw gr::error(o.files.data.front() + ": one example is too few, because some are for validation");
    validation_ = split_off(train_, std::clamp<std::size_t>(share, 1, all.size() - 1));
  }
  rows_.emplace(lengths_of(train_), most_positions, o.seed);
  rows_of_shares_ = rows_;
  epoch_rows_ = gr::pack_documents(lengths_of(train_), most_positions, o.seed, 0).size();
  validation_rows_ = gr::pack_documents(lengths_of(validation_), most_positions, 0, 0);
  identity_ = std::to_string(all.size()) + " + " + std::to_string(validation_.examples.size()) + " examples, CRC-32C " +
              std::to_string(checksum_of(train_)) + " + " + std::to_string(checksum_of(validation_));
}

std::string example_data::size_text() const {
  std::string text = counted(train_.examples.size(), preferences ? "preference" : "example") + " of " +
                     std::to_string(positions_of(train_)) + " tokens, and " +
                     std::to_string(validation_.examples.size()) + " for validation";
  const auto note = [&](std::size_t n, const char* what) {
    if (n > 0) text += "; " + std::to_string(n) + what;
  };
  note(train_.cut + validation_.cut, " cut at the context");
  note(train_.skipped + validation_.skipped, " longer than the context left out");
  note(train_.without_target + validation_.without_target, " with nothing to learn left out");
  return text;
}

std::vector<std::string> example_data::notes() const {
  std::vector<std::string> all = train_.notes;
  all.insert(all.end(), validation_.notes.begin(), validation_.notes.end());
  return all;
}

double example_data::positions_a_batch() const {
  return static_cast<double>(positions_of(train_)) / static_cast<double>(epoch_rows_);
}

std::vector<std::size_t> example_data::documents_of(std::optional<gr::pack_sequence>& rows,
                                                    std::uint64_t number) const {
  const std::lock_guard lock(mutex_);
  const auto row = (*rows)[number];
  return {row.begin(), row.end()};
}
example_batch example_data::batch(const options&, std::uint64_t number) const {
  return batch_of<example_batch>(train_, documents_of(rows_, number));
}
double example_data::share(std::uint64_t number) const {
  if (preferences) return 1;
  std::size_t targets = 0;
  for (const std::size_t d : documents_of(rows_of_shares_, number)) targets += train_.examples[d].targets();
  return static_cast<double>(targets) / static_cast<double>(most_positions);
}

std::size_t example_data::validation_batches(std::size_t tokens) const {
  const std::size_t rows = validation_rows_.size();
  const std::size_t each = preferences ? positions_of(validation_) / rows + 1 : most_positions;
  return std::min(rows, (tokens + each - 1) / each);
}
example_batch example_data::validation_batch(std::size_t part, std::size_t of) const {
  return batch_of<example_batch>(validation_, validation_rows_[part * validation_rows_.size() / of]);
}

}  // namespace gpt
