#pragma once
#include <array>
#include <cstdio>
#include <cstdlib>

#include "diagnostics.hpp"

namespace gradus {

GRADUS_IMPL std::string bytes_text(std::size_t bytes) {
  std::array<char, 64> text{};
  const int length =
      std::snprintf(text.data(), text.size(), "%zu bytes (%.2f MiB)", bytes, static_cast<double>(bytes) / (1 << 20));
  return std::string(text.data(), static_cast<std::size_t>(length));
}

GRADUS_IMPL std::string purpose_text(category what, std::string_view source) {
  std::string text(category_name(what));
  return source.empty() ? text : text.append(" of ").append(source);
}

GRADUS_IMPL out_of_memory shortage(std::string_view who, const memory_request& request, memory_figures known) {
  known.asked = request.bytes;
  std::string text(who);
  text.append(": asked ").append(bytes_text(request.bytes)).append(" for ").append(purpose_text(request));
  const struct {
    const char* name;
    std::size_t bytes;
  } all[] = {{"live ", known.live}, {"cached ", known.cached}, {"limit ", known.limit}};
  const char* separator = "; ";
  for (const auto& figure : all) {
    if (figure.bytes == memory_figures::unknown) continue;
    text.append(separator).append(figure.name).append(bytes_text(figure.bytes));
    separator = ", ";
  }
  if (known.fits == memory_figures::unknown)
    text += "; no free range is that large; ask for less, such as a smaller batch";
  else text.append("; at most ").append(bytes_text(known.fits)).append(" would fit");
  return out_of_memory(text, known);
}

[[noreturn]] GRADUS_IMPL void memory_misuse(const char* who, const char* what, const void* memory,
                                            const memory_request& request) noexcept {
  const std::string_view kind = category_name(request.what);
  std::fprintf(stderr, "%s: %p %s (freed as request %zu, %zu bytes, %.*s%s%.*s)\n", who, memory, what, request.id,
               request.bytes, static_cast<int>(kind.size()), kind.data(), request.source.empty() ? "" : " of ",
               static_cast<int>(request.source.size()), request.source.data());
  std::abort();
}

[[noreturn]] GRADUS_IMPL void ended_too_early(const char* who, const std::string& what) noexcept {
  std::fprintf(stderr, "%s ends while %s are in use: tensors, tapes and optimizers must end before their memory does\n",
               who, what.c_str());
  std::abort();
}

}  // namespace gradus
