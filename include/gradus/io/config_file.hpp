#pragma once
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "../core/config.hpp"
#include "../core/error.hpp"

namespace gradus {

/// What a configuration says: names with values, in their order. A name may come several times.
using config_entries = std::vector<std::pair<std::string, std::string>>;

/// Reads a file of lines `name = value`. Blanks around both are dropped, and quotation marks around a value, which keep
/// blanks of its own. Empty lines and lines that begin with # say nothing. Throws gradus::error, which names the file
/// and the line, where one is anything else.
config_entries read_config(const std::filesystem::path& path);

/// The text of a file that read_config reads the same entries from. Throws gradus::error for a value with a line end.
std::string config_text(const config_entries& entries);

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "config_file.ipp"
#endif
