#include "data.hpp"

#include <algorithm>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include <gradus/core/parse_number.hpp>
#include <gradus/core/philox.hpp>
#include <gradus/data/text.hpp>
#include <gradus/data/wordpiece_json.hpp>
#include <gradus/io/atomic_file.hpp>
#include <gradus/io/json.hpp>

namespace bert {
namespace {

// A line of a TSV file.
struct labelled_text {
  std::string text, label, second;
  std::size_t line;
};

[[noreturn]] void fail(const std::string& file, std::size_t line, const std::string& what) {
  throw gr::error(file + ": line " + std::to_string(line) + ": " + what);
}

std::vector<labelled_text> read_tsv(const std::string& file) {
  const std::string text = gr::read_text(file);
  std::vector<labelled_text> all;
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line(text.data() + begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    std::vector<std::string> fields(1);
    for (const char c : line) {
      if (c == '\t') fields.emplace_back();
      else fields.back() += c;
    }
    if (number == 1 && fields.size() > 1 && fields[1] == "label") continue;
    if (fields.size() < 2) fail(file, number, "has no label: it must be text, a tab and a label");
    if (fields.size() > 3) fail(file, number, "has more than text, label and second text");
    if (fields[1].empty()) fail(file, number, "the label is empty");
    fields.resize(3);
    all.push_back({fields[0], fields[1], fields[2], number});
  }
  if (all.empty()) throw gr::error(file + ": has no labelled text");
  return all;
}

std::optional<std::size_t> as_number(const std::string& label) { return gr::parse_number<std::size_t>(label); }

// The names of labels in alphabetical order; none if all are numbers.
std::vector<std::string> names_of(const std::vector<labelled_text>& all, const std::string& file) {
  if (std::ranges::all_of(all, [](const auto& t) { return as_number(t.label).has_value(); })) return {};
  std::set<std::string> names;
  for (const labelled_text& t : all) names.insert(t.label);
  if (names.size() > sizes.labels)
    throw gr::error(file + ": has " + std::to_string(names.size()) + " labels, and this program was compiled for " +
                    std::to_string(sizes.labels) + "; give scripts/train-bert.sh --labels " +
                    std::to_string(names.size()));
  return {names.begin(), names.end()};
}

std::int32_t number_of(const labelled_text& t, const std::vector<std::string>& names, const std::string& file) {
  const auto at = std::ranges::lower_bound(names, t.label);
  if (at != names.end() && *at == t.label) return static_cast<std::int32_t>(at - names.begin());
  if (!names.empty()) fail(file, t.line, "the label '" + t.label + "' is not one of the training data's");
  const auto number = as_number(t.label);
  if (!number || *number >= sizes.labels)
    fail(file, t.line,
         "the label is '" + t.label + "', and this program was compiled for the labels 0 to " +
             std::to_string(sizes.labels - 1));
  return static_cast<std::int32_t>(*number);
}

samples encoded(const std::vector<labelled_text>& all, const std::string& file, const std::vector<std::string>& names,
                const gr::wordpiece_tokenizer& tokenizer, bool training) {
  std::vector<std::int32_t> rows, labels;
  rows.reserve(all.size() * samples::row_size);
  for (const labelled_text& t : all) {
    labels.push_back(number_of(t, names, file));
    const gr::wordpiece_input input = t.second.empty() ? tokenizer.model_input(t.text, sequence_length)
                                                       : tokenizer.model_input(t.text, t.second, sequence_length);
    const auto second = std::ranges::find(input.segments, 1) - input.segments.begin();
    rows.insert(rows.end(), input.ids.begin(), input.ids.end());
    rows.resize(labels.size() * samples::row_size - 2, tokenizer.id_of("[PAD]").value_or(0));
    rows.push_back(static_cast<std::int32_t>(input.ids.size()));
    rows.push_back(static_cast<std::int32_t>(second));
  }
  return samples(file, std::move(rows), std::move(labels), training);
}

}  // namespace

samples::samples(const std::string& name, std::vector<std::int32_t> rows, std::vector<std::int32_t> labels,
                 bool training) {
  const gr::index_t n = labels.size();
  if (n == 0 || (training && n < batch_size))
    throw gr::error(name + ": has " + std::to_string(n) + " samples for " + (training ? "training" : "validation") +
                    "; at least " + std::to_string(training ? batch_size : 1) + " are needed");
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

run_data read_data(const text_files& files) {
  gr::wordpiece_tokenizer tokenizer = gr::read_wordpiece_json(files.tokenizer);
  if (tokenizer.vocabulary() > sizes.vocabulary)
    throw gr::error(files.tokenizer + ": has " + std::to_string(tokenizer.vocabulary()) +
                    " tokens, and this program was compiled for " + std::to_string(sizes.vocabulary));
  std::vector<labelled_text> train = read_tsv(files.data), validation;
  std::vector<std::string> names = names_of(train, files.data);
  const bool own = !files.validation_data.empty();
  if (own) {
    validation = read_tsv(files.validation_data);
  } else {
    const auto kept =
        train.size() - static_cast<std::size_t>(files.validation_share * static_cast<double>(train.size()));
    validation.assign(train.begin() + static_cast<std::ptrdiff_t>(kept), train.end());
    train.resize(kept);
  }
  samples of_train = encoded(train, files.data, names, tokenizer, true);
  samples of_validation = encoded(validation, own ? files.validation_data : files.data, names, tokenizer, false);
  return {std::move(of_train), std::move(of_validation), std::move(names), std::move(tokenizer)};
}

void save_tokenizer(const gr::wordpiece_tokenizer& tokenizer, const std::filesystem::path& folder) {
  nlohmann::ordered_json settings{{"tokenizer_class", "PreTrainedTokenizerFast"},
                                  {"model_input_names", {"input_ids", "token_type_ids", "attention_mask"}},
                                  {"model_max_length", sizes.positions},
                                  {"cls_token", tokenizer.settings().begin},
                                  {"sep_token", tokenizer.settings().separator},
                                  {"unk_token", tokenizer.settings().unknown}};
  if (tokenizer.id_of("[PAD]")) settings["pad_token"] = "[PAD]";
  if (tokenizer.id_of("[MASK]")) settings["mask_token"] = "[MASK]";
  gr::write_wordpiece_json(folder / "tokenizer.json", tokenizer);
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
