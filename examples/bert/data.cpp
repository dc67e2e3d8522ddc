#include "data.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <numeric>
#include <span>
#include <sstream>
#include <string_view>
#include <utility>

#include <gradus/core/parse_number.hpp>
#include <gradus/core/philox.hpp>
#include <gradus/core/printable.hpp>
#include <gradus/data/labelled_texts.hpp>
#include <gradus/io/atomic_file.hpp>
#include <gradus/io/crc32c.hpp>
#include <gradus/io/json.hpp>
#include <gradus/io/text_file.hpp>
#include <gradus/tokenizer/text_settings_json.hpp>
#include <gradus/tokenizer/tokenizer_json.hpp>

namespace bert {
namespace {

// Reads lines `text TAB label` or `text TAB label TAB second text`, with the numbers of the labels that have names.
gr::labelled_texts read_tsv(const std::string& file, std::vector<std::string> names, bool any_class = false) {
  gr::labelled_text_options columns{.label_names = std::move(names),
                                    .classes = any_class ? 0 : static_cast<std::int32_t>(sizes.labels)};
  if (sizes.task == task::contrastive) {  // lines `text TAB second text`: a second text as if it were a label's name
    gr::labelled_texts all = gr::read_labelled_texts(file, columns);
    for (const std::int32_t name : all.labels)
      all.second_texts.push_back(all.label_names[static_cast<std::size_t>(name)]);
    return all;
  }
  std::ifstream opened(file);
  std::string line;
  std::getline(opened, line);
  if (sizes.embeds() || std::ranges::count(line, '\t') > 1) columns.second_text = 2;
  std::string_view label = std::string_view(line).substr(std::min(line.find('\t'), line.size() - 1) + 1);
  label = label.substr(0, label.find_first_of("\t\r"));
  columns.header = label == "label";
  return gr::read_labelled_texts(file, columns);
}

// What is learned of each text: its class, or the number that its label is.
std::vector<float> labels_of(const gr::labelled_texts& all, const std::string& file) {
  if (!sizes.scores()) return {all.labels.begin(), all.labels.end()};
  std::vector<float> numbers, scores;
  for (const std::string& name : all.label_names) {
    const auto number = gr::parse_number<float>(name);
    if (!number || !std::isfinite(*number))
      throw gr::error(file + ": the label '" + gr::printable(name) + "' is not a number");
    if (sizes.task == task::cosine && std::abs(*number) > 1)
      throw gr::error(file + ": the label '" + name + "' is no cosine, which is from -1 to 1; divide by the largest");
    numbers.push_back(*number);
  }
  for (const std::int32_t name : all.labels) scores.push_back(numbers[static_cast<std::size_t>(name)]);
  return scores;
}

// What was read of the first row, so that a user sees if the columns are in another order.
std::string first_row(const gr::labelled_texts& all) {
  const auto shown = [](const std::string& text) {
    return "'" + gr::printable(std::string_view(text).substr(0, 60)) + (text.size() > 60 ? "…'" : "'");
  };
  const std::string label = "label " + shown(all.label_names[static_cast<std::size_t>(all.labels.front())]) + ", ";
  return (sizes.task == task::contrastive ? "" : label) + "text " + shown(all.texts.front()) +
         (all.second_texts.empty() ? "" : ", second text " + shown(all.second_texts.front()));
}

// Says which columns of a file are ignored, if there are some.
void note_ignored(std::vector<std::string>& notes, const gr::labelled_texts& all, const std::string& file) {
  const gr::index_t read = all.second_texts.empty() || sizes.task == task::contrastive ? 2 : 3;
  if (all.columns > read + 1)
    notes.push_back(file + ": ignored: columns " + std::to_string(read + 1) + " to " + std::to_string(all.columns));
  else if (all.columns > read) notes.push_back(file + ": ignored: column " + std::to_string(all.columns));
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

gr::tokenizer read_tokenizer(const std::string& file) {
  gr::tokenizer tokenizer = gr::read_tokenizer_json(file);
  if (tokenizer.vocabulary() > sizes.vocabulary)
    throw gr::error(file + ": has " + std::to_string(tokenizer.vocabulary()) +
                    " tokens, and this program was compiled for " + std::to_string(sizes.vocabulary));
  return tokenizer;
}

// Adds a text or a pair as a sequence: its tokens, zeros behind them, their count, and the place where the second text
// begins.
void add_sequence(std::vector<std::int32_t>& rows, const gr::tokenizer& tokenizer, const std::string& text,
                  const std::string& second = {}) {
  const gr::model_input input =
      second.empty() ? tokenizer.input(text, sequence_length) : tokenizer.input(text, second, sequence_length);
  const std::size_t end = rows.size() + sequence_length;
  rows.insert(rows.end(), input.ids.begin(), input.ids.end());
  rows.resize(end);
  rows.push_back(static_cast<std::int32_t>(input.ids.size()));
  rows.push_back(static_cast<std::int32_t>(std::ranges::find(input.segments, 1) - input.segments.begin()));
}

// The samples first .. end - 1.
samples encoded(const gr::labelled_texts& all, std::size_t first, std::size_t end, const std::string& file,
                const gr::tokenizer& tokenizer, bool training) {
  std::vector<std::int32_t> rows;
  rows.reserve((end - first) * samples::row_size);
  for (std::size_t i = first; i < end; ++i) {
    const std::string second = all.second_texts.empty() ? "" : all.second_texts[i];
    if (sizes.embeds()) {
      add_sequence(rows, tokenizer, all.texts[i]);
      add_sequence(rows, tokenizer, second);
    } else {
      add_sequence(rows, tokenizer, all.texts[i], second);
    }
  }
  const auto labels = labels_of(all, file);
  const auto own = std::span(labels).subspan(first, end - first);
  return samples(file, std::move(rows), {own.begin(), own.end()}, training);
}

// Adds a sequence to a batch.
void add_sequence(host_batch& to, std::span<const std::int32_t> sequence) {
  const std::int32_t count = sequence[sequence_length], second = sequence[sequence_length + 1];
  to.tokens.insert(to.tokens.end(), sequence.begin(), sequence.begin() + count);
  to.lengths.push_back(count);
  for (std::int32_t t = 0; t < count; ++t) to.segments.push_back(sizes.segments > 1 && t >= second ? 1 : 0);
}
// Fills a batch up to `sequences` with sequences of one token 0.
void fill(host_batch& b, gr::index_t sequences) {
  const gr::index_t tokens = b.tokens.size() + sequences - b.lengths.size();
  b.tokens.resize(tokens);
  b.segments.resize(tokens);
  b.lengths.resize(sequences, 1);
}

}  // namespace

samples::samples(const std::string& name, std::vector<std::int32_t> rows, std::vector<float> labels, bool training) {
  const gr::index_t n = labels.size();
  if (n == 0 || (training && n < batch_size))
    throw gr::error(name + ": has " + std::to_string(n) + " samples for " + (training ? "training" : "validation") +
                    "; at least " + std::to_string(training ? batch_size : 1) + " are needed");
  gr::crc32c sum;
  sum.add(std::as_bytes(std::span(rows)));
  sum.add(std::as_bytes(std::span(labels)));
  checksum_ = sum.value();
  batches_.emplace(gr::host_array<std::int32_t>{{n, row_size}, std::move(rows)},
                   gr::host_array<float>{{n}, std::move(labels)},
                   gr::sample_batch_options{.batch = batch_size, .drop_last = training});
}

host_batch samples::to_host_batch(gr::sample_batch<std::int32_t, float> b) {
  host_batch made;
  for (gr::index_t text = 0; text < sizes.texts(); ++text) {
    for (gr::index_t r = 0; r < b.rows(); ++r)
      add_sequence(made, std::span(b.inputs.values).subspan(r * row_size + text * sequence_size, sequence_size));
    fill(made, (text + 1) * batch_size);
  }
  made.scores = std::move(b.targets.values);
  made.labels.assign(made.scores.begin(), made.scores.end());
  if (sizes.task == task::contrastive) std::iota(made.labels.begin(), made.labels.end(), 0);
  made.labels.resize(batch_size, -1);
  made.scores.resize(batch_size, std::numeric_limits<float>::quiet_NaN());
  return made;
}

std::string run_data::identity() const {
  std::string text = std::to_string(train.count()) + " + " + std::to_string(validation.count()) + " samples, CRC-32C " +
                     std::to_string(train.checksum());
  for (const std::string& name : labels) text += (&name == labels.data() ? ", labels " : ", ") + name;
  return text;
}

run_data read_data(const text_files& files) {
  gr::tokenizer tokenizer = read_tokenizer(files.tokenizer);
  // Labels that are numbers stand for themselves, whatever names the classes of the model have.
  const bool classes = sizes.task == task::classes;
  gr::labelled_texts texts = read_tsv(files.data, {}, !classes || !files.label_names.empty());
  const bool numbered = texts.label_names == numbers_below(texts.label_names.size());
  if (classes && !files.label_names.empty())
    texts = read_tsv(files.data, numbered ? std::vector<std::string>() : files.label_names);
  std::vector<std::string> names = !classes                                 ? std::vector<std::string>()
                                   : !files.label_names.empty() || numbered ? files.label_names
                                                                            : texts.label_names;
  const std::size_t all = texts.texts.size();
  const std::size_t kept = files.validation_data.empty()
                               ? all - static_cast<std::size_t>(files.validation_share * static_cast<double>(all))
                               : all;
  std::string first = first_row(texts);
  std::vector<std::string> notes;
  note_ignored(notes, texts, files.data);
  samples train = encoded(texts, 0, kept, files.data, tokenizer, true);
  if (files.validation_data.empty())
    return {std::move(train), encoded(texts, kept, all, files.data, tokenizer, false),
            std::move(names), std::move(tokenizer),
            std::move(first), std::move(notes)};
  const gr::labelled_texts others =
      read_tsv(files.validation_data, classes && numbered ? numbers_below(sizes.labels) : names, !classes);
  note_ignored(notes, others, files.validation_data);
  samples validation = encoded(others, 0, others.texts.size(), files.validation_data, tokenizer, false);
  return {std::move(train),     std::move(validation), std::move(names),
          std::move(tokenizer), std::move(first),      std::move(notes)};
}

text_batches read_texts(const std::string& file, const std::string& tokenizer_file) {
  const gr::tokenizer tokenizer = read_tokenizer(tokenizer_file);
  std::istringstream lines(gr::read_text(file));
  text_batches all;
  constexpr gr::index_t rows = sizes.texts() * batch_size;
  for (std::string line; std::getline(lines, line); ++all.count) {
    if (all.count % rows == 0) all.batches.emplace_back();
    std::vector<std::int32_t> sequence;
    add_sequence(sequence, tokenizer, line);
    add_sequence(all.batches.back(), sequence);
  }
  if (!all.batches.empty()) fill(all.batches.back(), rows);
  return all;
}

void save_tokenizer(const gr::tokenizer& tokenizer, const std::filesystem::path& folder) {
  nlohmann::ordered_json settings{{"tokenizer_class", "PreTrainedTokenizerFast"},
                                  {"model_max_length", sizes.longest()}};
  for (const char* role : {"cls", "sep", "unk", "pad", "mask"})
    if (const auto id = special_token(tokenizer, role))
      settings[std::string(role) + "_token"] = tokenizer.spelling(*id);
  settings["model_input_names"] = sizes.segments > 1
                                      ? nlohmann::ordered_json{"input_ids", "token_type_ids", "attention_mask"}
                                      : nlohmann::ordered_json{"input_ids", "attention_mask"};
  gr::text_settings said = tokenizer.settings();
  said.files.emplace("tokenizer_config.json", settings.dump(2) + "\n");
  for (const char* of_model : {"generation_config.json", "token_ids.json"}) said.files.erase(of_model);
  gr::write_tokenizer_json(folder / "tokenizer.json", tokenizer);
  gr::write_text_settings(folder, said);
}

run_data dummy_data(gr::index_t count, std::uint64_t seed) {
  const auto draw = [&](gr::index_t first, gr::index_t end, bool training) {
    std::vector<std::int32_t> rows;
    std::vector<float> labels;
    for (gr::index_t s = first; s < end; ++s) {
      const gr::random_key key{.seed = seed, .step = static_cast<std::uint32_t>(s)};
      const auto number = [&](gr::index_t i) { return key.words(i)[0]; };
      for (gr::index_t text = 0; text < sizes.texts(); ++text) {
        for (gr::index_t t = 0; t < sequence_length; ++t)
          rows.push_back(static_cast<std::int32_t>(number(text * sequence_length + t) % sizes.vocabulary));
        rows.insert(rows.end(), 2, static_cast<std::int32_t>(sequence_length));
      }
      const auto drawn = number(sizes.texts() * sequence_length);
      labels.push_back(sizes.scores() ? static_cast<float>(drawn % 1000) / 1000
                                      : static_cast<float>(drawn % sizes.labels));
    }
    return samples("--dummy", std::move(rows), std::move(labels), training);
  };
  const gr::index_t kept = count - count / 10;
  return {draw(0, kept, true), draw(kept, count, false), {}, {}};
}

}  // namespace bert
