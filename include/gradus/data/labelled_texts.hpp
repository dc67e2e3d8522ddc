#pragma once
// Texts with labels, for classification: tables in text files (TSV).

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "../core/config.hpp"
#include "../core/error.hpp"
#include "../core/extent.hpp"

namespace gradus {

/// What to read of a table of texts. Columns are counted from 0.
struct labelled_text_options {
  char delimiter = '\t';                      ///< between fields
  bool header = false;                        ///< the first line names the columns, and is skipped
  index_t text = 0;                           ///< the column of the text
  std::optional<index_t> second_text = {};    ///< the column of the second text, where pairs are classified
  index_t label = 1;                          ///< the column of the label
  std::vector<std::string> label_names = {};  ///< label i is written as label_names[i]; empty: found in the file
  std::int32_t classes = 0;                   ///< labels must be below; 0: any number of them
};

/// Texts, and for each a label.
struct labelled_texts {
  std::vector<std::string> texts;
  std::vector<std::string> second_texts;  ///< as many, or none
  std::vector<std::int32_t> labels;
  std::vector<std::string> label_names;  ///< of labels 0, 1, …, for reading another file in the same way
  index_t columns = 0;                   ///< of the file, of which those that are not asked for are ignored
};

/// Reads a table with a text and its label in each line, such as the TSV files of GLUE. Quotes are ordinary characters;
/// spaces around a field and a byte order mark are ignored. Without `label_names`, labels that are whole numbers from 0
/// to 65535 stand for themselves, and other labels are numbered in the order of their bytes.
///
/// Throws gradus::error with the line, counted from 1, of the first text that is not UTF-8, and of the first label that
/// is missing, is not among the names, or is not below `classes`; with the line of a row that has more or fewer fields
/// than the first; and if there are no rows, or not the columns to read.
labelled_texts read_labelled_texts(const std::filesystem::path& path, const labelled_text_options& options = {});

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "labelled_texts.ipp"
#endif
