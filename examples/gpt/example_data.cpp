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
std::vector<std::size_t> lengths_of(const std::vector<gr::token_example>& examples) {
  std::vector<std::size_t> lengths;
  for (const gr::token_example& e : examples) lengths.push_back(e.positions());
  return lengths;
}
gr::packed_batch row_of(const std::vector<gr::token_example>& examples, std::span<const std::size_t> documents) {
  std::size_t n = 0;
  for (const std::size_t d : documents) n += examples[d].positions();
  return gr::pack_batch(examples, documents, n);
}
std::uint32_t checksum_of(const std::vector<gr::token_example>& examples) {
  gr::crc32c sum;
  for (const gr::token_example& e : examples) {
    sum.add(std::as_bytes(std::span(e.tokens)));
    sum.add(std::as_bytes(std::span(e.is_target)));
  }
  return sum.value();
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
    if (!found.rejected.empty())
      throw gr::error(files.front() + ": has preferences (chosen, rejected), which are not trained on");
    if (found.examples.empty()) throw gr::error(files.front() + ": has no example with something to learn");
    for (const gr::token_example& e : found.examples)
      for (const std::int32_t id : e.tokens)
        if (static_cast<gr::index_t>(id) >= sizes.vocabulary)
          throw gr::error(files.front() + ": has the token " + std::to_string(id) + ", and the model's vocabulary is " +
                          std::to_string(sizes.vocabulary));
    return found;
  };
  train_ = read(o.files.data);
  auto& all = train_.examples;
  if (!o.files.validation_data.empty()) {
    validation_ = read(o.files.validation_data);
  } else {
    const auto share = static_cast<std::size_t>(std::ceil(o.files.validation_share * static_cast<double>(all.size())));
    if (all.size() < 2)
      throw gr::error(o.files.data.front() + ": one example is too few, because some are for validation");
    const auto from = all.end() - static_cast<std::ptrdiff_t>(std::clamp<std::size_t>(share, 1, all.size() - 1));
    validation_.examples.assign(from, all.end());
    all.erase(from, all.end());
  }
  rows_.emplace(lengths_of(all), most_positions, o.seed);
  rows_of_shares_ = rows_;
  epoch_rows_ = gr::pack_documents(lengths_of(all), most_positions, o.seed, 0).size();
  validation_rows_ = gr::pack_documents(lengths_of(validation_.examples), most_positions, 0, 0);
  identity_ = std::to_string(all.size()) + " + " + std::to_string(validation_.examples.size()) + " examples, CRC-32C " +
              std::to_string(checksum_of(all)) + " + " + std::to_string(checksum_of(validation_.examples));
}

std::string example_data::size_text() const {
  std::string text = counted(train_.examples.size(), "example") + " of " +
                     std::to_string(positions_of(train_.examples)) + " tokens, and " +
                     std::to_string(validation_.examples.size()) + " for validation";
  const auto note = [&](std::size_t n, const char* what) {
    if (n > 0) text += "; " + std::to_string(n) + what;
  };
  note(train_.cut + validation_.cut, " cut at the context");
  note(train_.skipped + validation_.skipped, " longer than the context left out");
  note(train_.without_target + validation_.without_target, " with nothing to learn left out");
  return text;
}

double example_data::positions_a_batch() const {
  return static_cast<double>(positions_of(train_.examples)) / static_cast<double>(epoch_rows_);
}

std::vector<std::size_t> example_data::documents_of(std::optional<gr::pack_sequence>& rows,
                                                    std::uint64_t number) const {
  const std::lock_guard lock(mutex_);
  const auto row = (*rows)[number];
  return {row.begin(), row.end()};
}
gr::packed_batch example_data::batch(const options&, std::uint64_t number) const {
  return row_of(train_.examples, documents_of(rows_, number));
}
double example_data::share(std::uint64_t number) const {
  std::size_t targets = 0;
  for (const std::size_t d : documents_of(rows_of_shares_, number)) targets += train_.examples[d].targets();
  return static_cast<double>(targets) / static_cast<double>(most_positions);
}

std::size_t example_data::validation_batches(std::size_t tokens) const {
  return std::min(validation_rows_.size(), (tokens + most_positions - 1) / most_positions);
}
gr::packed_batch example_data::validation_batch(std::size_t part, std::size_t of) const {
  return row_of(validation_.examples, validation_rows_[part * validation_rows_.size() / of]);
}

}  // namespace gpt
