// Tables of texts and labels from elsewhere.
#include <cstdlib>
#include <gradus/data/labelled_texts.hpp>

#include "fuzz.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const gradus_fuzz::input_file input(data, size);
  for (const bool header : {false, true})
    gradus_fuzz::attempt([&] {
      const auto read = gradus::read_labelled_texts(input.path(), {.header = header, .classes = 4});
      if (read.texts.size() != read.labels.size()) std::abort();
      for (const std::int32_t label : read.labels)
        if (label < 0 || label >= 4) std::abort();
    });
  return 0;
}
