#pragma once

#include <string>
#include <vector>

namespace bert {

/// Files of lines `text TAB label` or `text TAB label TAB second text`. A first line whose label is "label" is a
/// header.
struct text_files {
  std::string data;
  std::string validation_data;  ///< empty: a share of the data, from its end
  double validation_share = 0.1;
  std::string tokenizer;                      ///< tokenizer.json
  std::vector<std::string> label_names = {};  ///< of the classes, where the model that is trained further has some
};

}  // namespace bert
