#pragma once
// Labelled texts: read from a TSV file, as tokens, in batches.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <gradus/data/sample_batches.hpp>
#include <gradus/tokenizer/tokenizer.hpp>

#include "config.hpp"
#include "text_files.hpp"
#include "training.hpp"

namespace bert {

/// Labelled sequences in memory. Batches are functions of their numbers, so a run resumes with its seed and a number.
class samples {
 public:
  /// `rows` are numbers of a sample: of each of its sequences `sequence_length`, of which the first are its tokens,
  /// their count, and the place where the second text begins; labels are classes or scores. Throws gr::error if there
  /// are none, and in training if they are fewer than a batch.
  samples(const std::string& name, std::vector<std::int32_t> rows, std::vector<float> labels, bool training);

  static constexpr gr::index_t sequence_size = sequence_length + 2, row_size = sizes.texts() * sequence_size;

  gr::index_t count() const { return batches_->samples(); }
  /// A checksum of tokens and labels.
  std::uint32_t checksum() const { return checksum_; }
  gr::index_t batches() const { return batches_->batches(); }
  /// Batch `number` of a training run.
  host_batch shuffled_batch(std::uint64_t seed, std::uint64_t number) const {
    return to_host_batch(batches_->shuffled_batch(seed, number));
  }
  /// Batch `number` of the samples in their order. The last one is filled with sequences of the label -1, or of a score
  /// that is no number.
  host_batch batch(std::uint64_t number) const { return to_host_batch(batches_->batch(number)); }

 private:
  using batches_type = gr::sample_batches<std::int32_t, float>;
  static host_batch to_host_batch(gr::sample_batch<std::int32_t, float> b);
  std::optional<batches_type> batches_;
  std::uint32_t checksum_ = 0;
};

/// What a run trains on, and what it is validated on.
struct run_data {
  samples train, validation;
  std::vector<std::string> labels;         ///< names; empty: numbers
  std::optional<gr::tokenizer> tokenizer;  ///< none for dummy data

  std::string first = {};               ///< what was read of the first row, to be shown; empty for dummy data
  std::vector<std::string> notes = {};  ///< of each file the columns that are ignored, if it has some

  /// What tells the data from another run's: the number of samples, the names of the labels, a checksum.
  std::string identity() const;
};

/// Labels of classes are whole numbers below the model's, or names: those that the model has, or else any, which are
/// numbered in alphabetical order. Scores are numbers, from -1 to 1 for cosines. Throws gr::error for a label that the
/// model does not have, a line without one or with other columns than the first, and a tokenizer of another kind or
/// vocabulary.
run_data read_data(const text_files& files);

/// The lines of a file, one sequence each, as many in a batch as the model is compiled for, and the last ones filled
/// up, and how many there are.
struct text_batches {
  std::vector<host_batch> batches;
  gr::index_t count = 0;
};
text_batches read_texts(const std::string& file, const std::string& tokenizer);

/// Writes what AutoTokenizer reads into a folder: tokenizer.json and tokenizer_config.json.
void save_tokenizer(const gr::tokenizer& tokenizer, const std::filesystem::path& folder);

/// `count` sequences of random tokens with random labels, all of the sequence length; the last tenth is for validation.
run_data dummy_data(gr::index_t count, std::uint64_t seed);

}  // namespace bert
