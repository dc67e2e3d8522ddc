#pragma once
// The flag --device of the trainer and the sampler.

#include <gradus/core/parse_number.hpp>
#include <string>
#include <string_view>

#include "config.hpp"
#include "flags.hpp"

namespace gpt {

/// Adds the option --device, which has to be the device that the program was compiled for; a GPU's number may follow:
/// cuda:1.
inline void add_device(CLI::App& app, int& gpu) {
  const std::string what = on_gpu ? "cuda, or a GPU by number, such as cuda:1"
                                  : std::string(device_name) + ", which this program was compiled for";
  const auto read = [&gpu, what](const std::string& text) {
    int number = text == device_name ? 0 : -1;
    if (on_gpu && text.starts_with("cuda:"))
      number = gr::parse_number<int>(std::string_view(text).substr(5)).value_or(-1);
    check_flag(number >= 0, "--device", what, text.empty() ? "''" : text);
    gpu = number;
  };
  app.add_option_function<std::string>("--device", read, what);
}

}  // namespace gpt
