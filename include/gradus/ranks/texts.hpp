#pragma once
// Texts between ranks, and errors that all of them throw.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "../core/error.hpp"
#include "../memory/buffer.hpp"
#include "communicator.hpp"

namespace gradus {

/// The texts of all ranks, in their order. A collective, whose memory is of `ctx`; it waits for the device.
template <class D>
std::vector<std::string> gather_texts(context<D>& ctx, communicator<D>& ranks, const std::string& mine) {
  const index_t n = ranks.size();
  const buffer<D> lengths(ctx, n * sizeof(std::int64_t), category::temporary);
  auto* const length = static_cast<std::int64_t*>(lengths.data());
  std::vector<std::int64_t> known(n, static_cast<std::int64_t>(mine.size()));
  device_access<D>::upload(ctx, length, known.data(), lengths.bytes());
  ranks.all_gather(ctx, length + ranks.rank(), length, n).wait();
  device_access<D>::download(ctx, known.data(), length, lengths.bytes());

  std::vector<index_t> counts, begins{0};
  for (const std::int64_t l : known) {
    counts.push_back(static_cast<index_t>(l));
    begins.push_back(begins.back() + counts.back());
  }
  std::string all(begins.back(), '\0');
  if (!all.empty()) {
    const buffer<D> bytes(ctx, all.size(), category::temporary);
    auto* const byte = static_cast<std::uint8_t*>(bytes.data());
    std::uint8_t* const own = byte + begins[ranks.rank()];
    if (!mine.empty()) device_access<D>::upload(ctx, own, mine.data(), mine.size());
    ranks.all_gather(ctx, own, byte, counts).wait();
    device_access<D>::download(ctx, all.data(), byte, all.size());
  }
  std::vector<std::string> texts;
  for (index_t r = 0; r < n; ++r) texts.push_back(all.substr(begins[r], counts[r]));
  return texts;
}

/// Calls f() on every rank. If it throws error on some, all throw the error of the first of these: out_of_memory, if
/// that is what it is. A collective; f itself may call collectives if it completes them before it throws. rank_failed
/// is thrown as it is.
template <class D, class F>
void try_together(context<D>& ctx, communicator<D>& ranks, const F& f) {
  std::string problem;  // behind a letter for its kind
  try {
    f();
  } catch (const rank_failed&) { throw; } catch (const out_of_memory& e) {
    problem = std::string("m") + e.what();
  } catch (const error& e) { problem = std::string("e") + e.what(); }
  for (const std::string& text : gather_texts(ctx, ranks, problem)) {
    if (text.starts_with('m')) throw out_of_memory(text.substr(1));
    if (!text.empty()) throw error(text.substr(1));
  }
}

}  // namespace gradus
