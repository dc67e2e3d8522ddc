#pragma once
#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "text_file.hpp"

namespace gradus {

GRADUS_IMPL void detail::refuse_other_formats(const std::filesystem::path& path, std::span<const std::byte> head) {
  using std::string_view_literals::operator""sv;
  static constexpr std::pair<std::string_view, std::string_view> formats[] = {
      {"\x1f\x8b"sv, "is compressed by gzip; unpack it first: gunzip FILE"},
      {"BZh"sv, "is compressed by bzip2; unpack it first: bunzip2 FILE"},
      {"\xfd"
       "7zXZ"sv,
       "is compressed by xz; unpack it first: unxz FILE"},
      {"\x28\xb5\x2f\xfd"sv, "is compressed by zstd; unpack it first: unzstd FILE"},
      {"PK\3\4"sv, "is a zip archive, as .npz; unpack it first: unzip FILE"},
      {"PAR1"sv, "is a Parquet table; write its column of texts into a file of its own, by pandas or pyarrow"},
      {"\xff\xfe"sv, "is a text in UTF-16; convert it first: iconv -f UTF-16 -t UTF-8 FILE"},
      {"\xfe\xff"sv, "is a text in UTF-16; convert it first: iconv -f UTF-16 -t UTF-8 FILE"}};
  const std::string_view text(reinterpret_cast<const char*>(head.data()), head.size());
  for (const auto& [magic, what] : formats)
    if (text.starts_with(magic)) throw error(path.string() + ": " + std::string(what));
}

GRADUS_IMPL void detail::check_text_file(const random_access_file& file) {
  if (file.size() == 0) throw error(file.path().string() + ": is empty");
  std::array<std::byte, 8> head{};
  const auto some = std::span(head).first(std::min(file.size(), head.size()));
  file.read(0, some);
  refuse_other_formats(file.path(), some);
}

GRADUS_IMPL detail::text_stream::text_stream(const std::filesystem::path& path) : file_(path) {
  check_text_file(file_);
  if (ahead(3).starts_with("\xEF\xBB\xBF")) skip(3);
}

GRADUS_IMPL void detail::text_stream::fill(std::size_t least) {
  constexpr std::size_t block = 1 << 18;
  buffer_.erase(0, at_);
  at_ = 0;
  const std::size_t held = buffer_.size();
  const std::size_t more = std::min(std::max({block, held, least - held}), file_.size() - read_);
  buffer_.resize(held + more);
  file_.read(read_, std::as_writable_bytes(std::span(buffer_).subspan(held)));
  read_ += more;
}

GRADUS_IMPL std::string read_text(const std::filesystem::path& path) {
  const random_access_file file(path);
  detail::check_text_file(file);
  return file.text();
}

}  // namespace gradus
