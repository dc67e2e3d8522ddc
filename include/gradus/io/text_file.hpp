#pragma once
// Text files.

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include "../core/config.hpp"
#include "../core/error.hpp"
#include "random_access_file.hpp"

namespace gradus {

namespace detail {
/// Throws gradus::error, which says what to do, if `head`, a file's first 8 bytes or all, begins like a compressed
/// file, an archive, or a format of tables or texts that nothing here reads.
void refuse_other_formats(const std::filesystem::path& path, std::span<const std::byte> head);
/// refuse_other_formats for an open file; also throws gradus::error if the file is empty. A pipe is not checked.
void check_text_file(const random_access_file& file);
}  // namespace detail

/// The contents of a text file. Throws gradus::error if it is missing, a directory, unreadable, empty or no text.
std::string read_text(const std::filesystem::path& path);

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "text_file.ipp"
#endif
