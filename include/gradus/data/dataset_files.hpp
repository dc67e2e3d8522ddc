#pragma once
#include <string>
#include <vector>

namespace gradus {

/// Where training data are found.
struct dataset_files {
  /// Text files; or shards (*.bin); or one folder of shards, of which those with `val` in their names are for
  /// validation.
  std::vector<std::string> data = {};
  std::vector<std::string> validation_data =
      {};                         ///< of the same kinds; empty: those of the folder, or the end of `data`
  double validation_share = 0.1;  ///< of `data`, where there are no others
  std::string tokenizer = {};     ///< a tokenizer.json; empty: the folder's own, or texts are bytes
};

}  // namespace gradus
