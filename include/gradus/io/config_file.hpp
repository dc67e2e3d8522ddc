#pragma once
// Configuration files of lines `name = value`.

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "../core/config.hpp"
#include "../core/error.hpp"

namespace gradus {

/// The entries of a configuration file: names and values, in order. A name may occur several times.
using config_entries = std::vector<std::pair<std::string, std::string>>;

/// Reads a file of lines `name = value`. Trims blanks around both, and removes quotation marks around a value. Skips
/// empty lines and lines that begin with #. Throws gradus::error, which names file and line, for any other line.
config_entries read_config(const std::filesystem::path& path);

/// The text that read_config parses into these entries. Throws gradus::error for a value with a line end.
std::string config_text(const config_entries& entries);

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "config_file.ipp"
#endif
