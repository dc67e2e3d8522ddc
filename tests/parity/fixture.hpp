// Reads the files that make_fixtures.py writes: named arrays in the safetensors format.
#pragma once

#include <nlohmann/json.hpp>

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <ios>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace gradus_test {

/// A file of named arrays. Everything is read on construction; any doubt about the file throws std::runtime_error.
class fixture {
 public:
  explicit fixture(const std::string& path) : path_(path) {
    static_assert(std::endian::native == std::endian::little, "fixtures are stored little-endian");
    if (!std::filesystem::is_regular_file(path)) fail("is no file");
    std::ifstream in(path, std::ios::binary | std::ios::ate);
    if (!in) fail("cannot be opened");
    const auto end = static_cast<std::streamoff>(in.tellg());
    if (end < 8) fail("is shorter than its 8-byte length field");
    std::vector<char> file(static_cast<std::size_t>(end));
    in.seekg(0);
    if (!in.read(file.data(), static_cast<std::streamsize>(file.size()))) fail("cannot be read to its end");

    std::uint64_t header_bytes = 0;
    std::memcpy(&header_bytes, file.data(), 8);
    if (header_bytes > file.size() - 8) fail("announces a header longer than itself");
    const auto data = file.begin() + 8 + static_cast<std::ptrdiff_t>(header_bytes);
    try {
      header_ = nlohmann::json::parse(file.begin() + 8, data);
    } catch (const nlohmann::json::exception& e) { fail(std::string("has a header that is not JSON: ") + e.what()); }
    if (!header_.is_object()) fail("has a header that is not a JSON object");
    data_.assign(data, file.end());
  }

  [[nodiscard]] bool has(std::string_view name) const {
    return name != "__metadata__" && header_.contains(std::string(name));
  }

  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& item : header_.items())
      if (item.key() != "__metadata__") all.push_back(item.key());
    return all;
  }

  [[nodiscard]] std::vector<std::size_t> shape(std::string_view name) const {
    try {
      return entry(name).at("shape").template get<std::vector<std::size_t>>();
    } catch (const nlohmann::json::exception& e) {
      fail("has no sound shape for '" + std::string(name) + "': " + e.what());
    }
  }

  /// The array in row-major order, whatever it is stored as.
  [[nodiscard]] std::vector<double> values(std::string_view name) const {
    const std::string dtype = text(name, "dtype");
    if (dtype == "F64") return read<double>(name);
    if (dtype == "F32") return read<float>(name);
    if (dtype == "I64") return read<std::int64_t>(name);
    if (dtype == "I32") return read<std::int32_t>(name);
    fail("stores '" + std::string(name) + "' as " + dtype + ", which this reader does not know");
  }

  /// The array converted to T: values_as<float>, values_as<std::int32_t>.
  template <class T>
    requires std::integral<T> || std::floating_point<T>
  [[nodiscard]] std::vector<T> values_as(std::string_view name) const {
    std::vector<T> out;
    for (const double v : values(name)) out.push_back(static_cast<T>(v));
    return out;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw std::runtime_error("fixture " + path_ + " " + what); }

  [[nodiscard]] const nlohmann::json& entry(std::string_view name) const {
    if (!has(name)) fail("has no array '" + std::string(name) + "'");
    return header_.at(std::string(name));
  }

  [[nodiscard]] std::string text(std::string_view name, const char* key) const {
    try {
      return entry(name).at(key).template get<std::string>();
    } catch (const nlohmann::json::exception& e) {
      fail("has no sound " + std::string(key) + " for '" + std::string(name) + "': " + e.what());
    }
  }

  template <class Stored>
  [[nodiscard]] std::vector<double> read(std::string_view name) const {
    std::vector<std::size_t> range;
    try {
      range = entry(name).at("data_offsets").template get<std::vector<std::size_t>>();
    } catch (const nlohmann::json::exception& e) {
      fail("has no sound data_offsets for '" + std::string(name) + "': " + e.what());
    }
    if (range.size() != 2 || range[0] > range[1] || range[1] > data_.size())
      fail("places '" + std::string(name) + "' outside of its data");
    std::size_t count = 1;
    for (const std::size_t extent : shape(name)) {
      if (extent != 0 && count > std::numeric_limits<std::size_t>::max() / sizeof(Stored) / extent)
        fail("gives '" + std::string(name) + "' a shape that overflows");
      count *= extent;
    }
    if (range[1] - range[0] != count * sizeof(Stored))
      fail("holds " + std::to_string(range[1] - range[0]) + " bytes for '" + std::string(name) +
           "', whose shape needs " + std::to_string(count * sizeof(Stored)));
    std::vector<double> out(count);
    for (std::size_t i = 0; i < count; ++i) {
      Stored v{};
      std::memcpy(&v, data_.data() + range[0] + i * sizeof(Stored), sizeof(Stored));
      out[i] = static_cast<double>(v);
    }
    return out;
  }

  std::string path_;
  nlohmann::json header_;
  std::vector<char> data_;
};

}  // namespace gradus_test
