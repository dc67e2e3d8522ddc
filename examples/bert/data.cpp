#include "data.hpp"

#include <algorithm>
#include <fstream>
#include <span>
#include <string_view>
#include <utility>

#include <gradus/core/philox.hpp>
#include <gradus/core/printable.hpp>
#include <gradus/data/labelled_texts.hpp>
#include <gradus/io/atomic_file.hpp>
#include <gradus/io/crc32c.hpp>
#include <gradus/io/json.hpp>
#include <gradus/tokenizer/tokenizer_json.hpp>

namespace bert {
namespace {

// Reads lines `text TAB label` or `text TAB label TAB second text`, with the numbers of the labels that have names.
gr::labelled_texts read_tsv(const std::string& file, std::vector<std::string> names, bool any_class = false) {
  gr::labelled_text_options columns{.label_names = std::move(names),
                                    .classes = any_class ? 0 : static_cast<std::int32_t>(sizes.labels)};
  std::ifstream opened(file);
  std::string line;
  std::getline(opened, line);
  if (std::ranges::count(line, '\t') > 1) columns.second_text = 2;
  std::string_view label = std::string_view(line).substr(std::min(line.find('\t'), line.size() - 1) + 1);
  label = label.substr(0, label.find_first_of("\t\r"));
  columns.header = label == "label";
  return gr::read_labelled_texts(file, columns);
}

// What was read of the first row, so that a user sees if the columns are in another order.
std::string first_row(const gr::labelled_texts& all) {
  const auto shown = [](const std::string& text) {
    return "'" + gr::printable(std::string_view(text).substr(0, 60)) + (text.size() > 60 ? "…'" : "'");
  };
  return "label " + shown(all.label_names[static_cast<std::size_t>(all.labels.front())]) + ", text " +
         shown(all.texts.front()) +
         (all.second_texts.empty() ? "" : ", second text " + shown(all.second_texts.front()));
}

// The token of a role, such as "pad": [PAD] or <pad>; RoBERTa's first and last are <s> and </s>.
std::optional<std::int32_t> special_token(const gr::tokenizer& tokenizer, std::string role) {
  const std::string other = role == "cls" ? "<s>" : role == "sep" ? "</s>" : "<" + role + ">";
  for (char& c : role) c = static_cast<char>(c - 'a' + 'A');
  const auto id = tokenizer.id_of("[" + role + "]");
  return id ? id : tokenizer.id_of(other);
}

std::vector<std::string> numbers_below(std::size_t end) {
  std::vector<std::string> numbers;
  for (std::size_t i = 0; i < end; ++i) numbers.push_back(std::to_string(i));
  return numbers;
}

// The samples first .. end - 1.
samples encoded(const gr::labelled_texts& all, std::size_t first, std::size_t end, const std::string& file,
                const gr::tokenizer& tokenizer, bool training) {
  std::vector<std::int32_t> rows;
  rows.reserve((end - first) * samples::row_size);
  for (std::size_t i = first; i < end; ++i) {
    const bool pair = !all.second_texts.empty() && !all.second_texts[i].empty();
    const gr::model_input input = pair ? tokenizer.input(all.texts[i], all.second_texts[i], sequence_length)
                                       : tokenizer.input(all.texts[i], sequence_length);
    const auto second = std::ranges::find(input.segments, 1) - input.segments.begin();
    rows.insert(rows.end(), input.ids.begin(), input.ids.end());
    rows.resize((i - first + 1) * samples::row_size - 2, special_token(tokenizer, "pad").value_or(0));
    rows.push_back(static_cast<std::int32_t>(input.ids.size()));
    rows.push_back(static_cast<std::int32_t>(second));
  }
  const auto labels = std::span(all.labels).subspan(first, end - first);
  return samples(file, std::move(rows), {labels.begin(), labels.end()}, training);
}

}  // namespace

samples::samples(const std::string& name, std::vector<std::int32_t> rows, std::vector<std::int32_t> labels,
                 bool training) {
  const gr::index_t n = labels.size();
  if (n == 0 || (training && n < batch_size))
    throw gr::error(name + ": has " + std::to_string(n) + " samples for " + (training ? "training" : "validation") +
                    "; at least " + std::to_string(training ? batch_size : 1) + " are needed");
  gr::crc32c sum;
  sum.add(std::as_bytes(std::span(rows)));
  sum.add(std::as_bytes(std::span(labels)));
  checksum_ = sum.value();
  batches_.emplace(gr::host_array<std::int32_t>{{n, row_size}, std::move(rows)},
                   gr::host_array<std::int32_t>{{n}, std::move(labels)},
                   gr::sample_batch_options{.batch = batch_size, .drop_last = training});
}

host_batch samples::to_host_batch(gr::sample_batch<std::int32_t, std::int32_t> b) {
  host_batch made;
  for (gr::index_t r = 0; r < b.rows(); ++r) {
    const auto row = std::span(b.inputs.values).subspan(r * row_size, row_size);
    const std::int32_t second = row[sequence_length + 1];
    made.tokens.insert(made.tokens.end(), row.begin(), row.begin() + sequence_length);
    made.lengths.push_back(row[sequence_length]);
    for (std::int32_t t = 0; t < static_cast<std::int32_t>(sequence_length); ++t)
      made.segments.push_back(t >= second && t < made.lengths.back() ? 1 : 0);
  }
  made.labels = std::move(b.targets.values);
  made.tokens.resize(batch_size * sequence_length);
  made.segments.resize(batch_size * sequence_length);
  made.lengths.resize(batch_size, 1);
  made.labels.resize(batch_size, -1);
  return made;
}

std::string run_data::identity() const {
  std::string text = std::to_string(train.count()) + " + " + std::to_string(validation.count()) + " samples, CRC-32C " +
                     std::to_string(train.checksum());
  for (const std::string& name : labels) text += (&name == labels.data() ? ", labels " : ", ") + name;
  return text;
}

run_data read_data(const text_files& files) {
  gr::tokenizer tokenizer = gr::read_tokenizer_json(files.tokenizer);
  if (tokenizer.vocabulary() > sizes.vocabulary)
    throw gr::error(files.tokenizer + ": has " + std::to_string(tokenizer.vocabulary()) +
                    " tokens, and this program was compiled for " + std::to_string(sizes.vocabulary));
  // Labels that are numbers stand for themselves, whatever names the classes of the model have.
  gr::labelled_texts texts = read_tsv(files.data, {}, !files.label_names.empty());
  const bool numbered = texts.label_names == numbers_below(texts.label_names.size());
  if (!files.label_names.empty())
    texts = read_tsv(files.data, numbered ? std::vector<std::string>() : files.label_names);
  std::vector<std::string> names = !files.label_names.empty() || numbered ? files.label_names : texts.label_names;
  const std::size_t all = texts.texts.size();
  const std::size_t kept = files.validation_data.empty()
                               ? all - static_cast<std::size_t>(files.validation_share * static_cast<double>(all))
                               : all;
  std::string first = first_row(texts);
  samples train = encoded(texts, 0, kept, files.data, tokenizer, true);
  if (files.validation_data.empty())
    return {std::move(train), encoded(texts, kept, all, files.data, tokenizer, false), std::move(names),
            std::move(tokenizer), std::move(first)};
  const gr::labelled_texts others = read_tsv(files.validation_data, numbered ? numbers_below(sizes.labels) : names);
  samples validation = encoded(others, 0, others.texts.size(), files.validation_data, tokenizer, false);
  return {std::move(train), std::move(validation), std::move(names), std::move(tokenizer), std::move(first)};
}

void save_tokenizer(const gr::tokenizer& tokenizer, const std::filesystem::path& folder) {
  nlohmann::ordered_json settings{{"tokenizer_class", "PreTrainedTokenizerFast"},
                                  {"model_input_names", {"input_ids", "token_type_ids", "attention_mask"}},
                                  {"model_max_length", sizes.positions}};
  for (const char* role : {"cls", "sep", "unk", "pad", "mask"})
    if (const auto id = special_token(tokenizer, role))
      settings[std::string(role) + "_token"] = tokenizer.spelling(*id);
  gr::write_tokenizer_json(folder / "tokenizer.json", tokenizer);
  gr::write_file_atomically(folder / "tokenizer_config.json", settings.dump(2) + "\n");
}

run_data dummy_data(gr::index_t count, std::uint64_t seed) {
  const auto draw = [&](gr::index_t first, gr::index_t end, bool training) {
    std::vector<std::int32_t> rows, labels;
    for (gr::index_t s = first; s < end; ++s) {
      const gr::random_key key{.seed = seed, .step = static_cast<std::uint32_t>(s)};
      for (gr::index_t t = 0; t < sequence_length; ++t)
        rows.push_back(static_cast<std::int32_t>(key.words(t)[0] % sizes.vocabulary));
      rows.insert(rows.end(), 2, static_cast<std::int32_t>(sequence_length));
      labels.push_back(static_cast<std::int32_t>(key.words(sequence_length)[0] % sizes.labels));
    }
    return samples("--dummy", std::move(rows), std::move(labels), training);
  };
  const gr::index_t kept = count - count / 10;
  return {draw(0, kept, true), draw(kept, count, false), {}, {}};
}

}  // namespace bert
