#pragma once
// Where training data are: the files of a dataset.

#include <string>
#include <vector>

namespace gradus {

/// The files of a dataset.
struct dataset_files {
  /// Text files, or shards (*.bin), or one folder of shards, whose files with `val` in the name are for validation.
  std::vector<std::string> data = {};
  std::vector<std::string> validation_data = {};  ///< of the same kinds; empty: the folder's, or the end of `data`
  double validation_share = 0.1;                  ///< of `data`, if `validation` is empty
  std::string tokenizer = {};                     ///< a tokenizer.json; empty: the folder's, or bytes for texts
};

}  // namespace gradus
