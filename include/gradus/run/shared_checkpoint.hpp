#pragma once
// Checkpoints of ranks that share a run: the same file as one rank writes, whatever the number of ranks.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../core/config.hpp"
#include "../core/dtype.hpp"
#include "../core/error.hpp"
#include "../io/safetensors.hpp"
#include "../memory/buffer.hpp"
#include "../model/parameters.hpp"
#include "../optim/param_list.hpp"
#include "../optim/param_pieces.hpp"
#include "../ranks/communicator.hpp"
#include "../ranks/texts.hpp"
#include "checkpoint.hpp"

namespace gradus {

namespace detail {

// What a rank has of a parameter's values, or of a state of it.
struct piece_contents {
  index_t number;                   // of the parameter
  std::string state;                // empty: values
  std::string dtype;                // as safetensors spells it
  std::size_t whole, begin, count;  // elements
  std::byte* data;
};
// A range of a checkpoint's tensor, and the rank that has it.
struct rank_range {
  std::size_t tensor;
  index_t rank;
  std::size_t begin, bytes;
  std::byte* data;  // on that rank
};
// The tensors of a checkpoint, and their ranges, both in the order of the file.
struct shared_tensors {
  std::vector<checkpointed> tensors;
  std::vector<rank_range> ranges;
};

std::string text_of(const std::vector<piece_contents>& mine);
// `model`: the model's tensors, of which rank 0 writes those that are no parameters; `parameters`: positions of the
// parameters among these, and `descriptions` what each rank has. Throws gradus::error unless each element of each
// tensor is on one rank.
shared_tensors join_pieces(std::vector<checkpointed> model, const std::vector<std::size_t>& parameters, index_t rank,
                           const std::vector<piece_contents>& mine, const std::vector<std::string>& descriptions);

// False for a parameter without a value, and for one that is in memory only while it is used: its pieces have the
// values.
template <class Tensor>
bool in_memory(const Tensor& value) {
  return value && !value.storage().is_paged();
}

// The tensors of all ranks. A collective. Makes states that the optimizer does not have yet.
template <class T, class D, class G, class Model, class Optimizer>
shared_tensors tensors_of_ranks(context<D>& ctx, const Model& model, Optimizer& optimizer,
                                const param_pieces<T, D, G>& pieces, communicator<D>& ranks) {
  std::vector<checkpointed> of_model;
  std::vector<std::size_t> parameters;
  for_each_trained_tensor(model, [&]<class P>(std::string_view name, const P& p) {
    using S = typename P::value_type;
    if constexpr (!is_state<P>) parameters.push_back(of_model.size());
    add_tensor(of_model, name, dtype_name<S>(), sizeof(S), P::shape::extents,
               in_memory(p.value()) ? const_cast<S*>(p.value().data()) : nullptr, is_state<P>);
  });
  std::map<std::string_view, index_t> numbers;
  for (const std::string& name : pieces.names()) numbers.emplace(name, numbers.size());
  std::vector<piece_contents> mine;
  for (const auto& piece : pieces.all()) {
    const auto [number, begin, size] = piece.range();
    const checkpointed& whole = of_model[parameters[number]];
    T* const own = piece.value_storage();
    auto* const data = static_cast<T*>(whole.data);
    mine.push_back({number,
                    {},
                    whole.dtype,
                    whole.count,
                    begin,
                    size,
                    reinterpret_cast<std::byte*>(own != nullptr    ? own
                                                 : data == nullptr ? nullptr
                                                                   : data + begin)});
  }
  optimizer.for_each_state(ctx, pieces, [&](const named_state<D>& s) {
    mine.push_back({numbers.at(s.parameter), std::string(s.state), safetensors_dtype(s.dtype), s.whole, s.begin, s.size,
                    static_cast<std::byte*>(s.data)});
  });
  return join_pieces(std::move(of_model), parameters, ranks.rank(), mine, gather_texts(ctx, ranks, text_of(mine)));
}

// Brings the bytes of ranges to rank 0, part by part.
template <class D>
class range_stream {
 public:
  range_stream(context<D>& ctx, communicator<D>& ranks, const std::vector<rank_range>& ranges)
      : ctx_(ctx), ranks_(ranks), ranges_(ranges) {}

  bool done() const { return next_ == ranges_.size(); }
  // The next bytes of a range, on the host; on ranks other than 0, none. A collective.
  std::span<const std::byte> next() {
    const rank_range& r = ranges_[next_];
    const std::size_t n = std::min(checkpoint_part, r.bytes - at_);
    const std::byte* from = r.rank == ranks_.rank() ? r.data + at_ : &nothing_;
    at_ += n;
    if (at_ == r.bytes) ++next_, at_ = 0;
    const bool first = ranks_.rank() == 0;
    if (r.rank != 0) {
      if (first && !received_) received_ = buffer<D>(ctx_, checkpoint_part, category::temporary);
      auto* const to = first ? static_cast<std::uint8_t*>(received_.data()) : nullptr;
      std::vector<index_t> sent(ranks_.size()), received(ranks_.size());
      if (first) received[r.rank] = n;
      if (r.rank == ranks_.rank()) sent[0] = n;
      ranks_.all_to_all(ctx_, reinterpret_cast<const std::uint8_t*>(from), to, sent, received).wait();
      if (first) from = static_cast<const std::byte*>(received_.data());
    }
    if (!first) return {};
    if constexpr (D::host_addressable) return {from, n};
    host_.resize(checkpoint_part);
    device_access<D>::download(ctx_, host_.data(), from, n);
    return {host_.data(), n};
  }

 private:
  context<D>& ctx_;
  communicator<D>& ranks_;
  const std::vector<rank_range>& ranges_;
  std::size_t next_ = 0, at_ = 0;  // range, and byte in it
  buffer<D> received_;
  std::vector<std::byte> host_;
  std::byte nothing_{};  // where ranks without bytes send from: from null to null would be in place
};

}  // namespace detail

/// False if a value in memory of a piece's own (see param_piece::set_value_storage) is not finite.
template <class T, class D, class G>
bool own_values_are_finite(context<D>& ctx, const param_pieces<T, D, G>& pieces) {
  std::vector<T> values(detail::checkpoint_part / sizeof(T));
  for (const auto& piece : pieces.all()) {
    const T* const from = piece.value_storage();
    if (from == nullptr) continue;
    for (index_t i = 0; i < piece.size(); i += values.size()) {
      const index_t n = std::min<index_t>(values.size(), piece.size() - i);
      device_access<D>::download(ctx, values.data(), from + i, n * sizeof(T));
      for (index_t k = 0; k < n; ++k)
        if (!std::isfinite(static_cast<compute_type<T>>(values[k]))) return false;
    }
  }
  return true;
}

/// Writes the checkpoint of a run whose ranks share its parameters or optimizer states: `optimizer` is made of
/// `pieces`, and the pieces of all ranks are the whole model. The file has the bytes of one that a single rank writes.
/// Rank 0 writes it, with its own metadata and model states, through a few megabytes of `ctx`. A collective: all ranks
/// throw gradus::error if rank 0 cannot write, and the files are then unchanged.
template <class T, class D, class G, class Model, class Optimizer>
void write_checkpoint(const std::filesystem::path& path, context<D>& ctx, const Model& model, Optimizer& optimizer,
                      const run_metadata& metadata, const std::vector<std::filesystem::path>& older,
                      const param_pieces<T, D, G>& pieces, communicator<D>& ranks) {
  detail::shared_tensors shared = detail::tensors_of_ranks(ctx, model, optimizer, pieces, ranks);
  detail::range_stream<D> stream(ctx, ranks, shared.ranges);
  try_together(ctx, ranks, [&] {
    std::exception_ptr problem;
    if (ranks.rank() == 0) {
      for (detail::checkpointed& t : shared.tensors)
        t.source = [&stream, bytes = t.bytes](const safetensors_writer::byte_sink& sink) {
          for (std::size_t left = bytes; left > 0;) {
            const std::span<const std::byte> part = stream.next();
            sink(part);
            left -= part.size();
          }
        };
      try {
        detail::make_checkpoint(shared.tensors, detail::steps_of(model, optimizer), metadata, {}).write(path, older);
      } catch (const rank_failed&) { throw; } catch (const error&) {
        problem = std::current_exception();
      }
    }
    while (!stream.done()) stream.next();  // also where rank 0 has stopped writing: the others send
    if (problem) std::rethrow_exception(problem);
  });
}

/// Reads a checkpoint, of any number of ranks, into an initialised model and an optimizer made of `pieces`. Every rank
/// opens the file, and reads the parameters that lie in its model, the values of pieces that lie in memory of their
/// own, and the states of its pieces. A collective: if any rank finds names, types, sizes or the checksum (which rank 0
/// computes) wrong, all throw gradus::error before anything has changed.
template <class T, class D, class G, class Model, class Optimizer>
run_metadata read_checkpoint(const std::filesystem::path& path, context<D>& ctx, Model& model, Optimizer& optimizer,
                             const param_pieces<T, D, G>& pieces, communicator<D>& ranks) {
  const detail::shared_tensors shared = detail::tensors_of_ranks(ctx, model, optimizer, pieces, ranks);
  std::optional<safetensors_file> file;
  run_metadata metadata;
  detail::checkpointed_steps steps;
  try_together(ctx, ranks, [&] {
    file.emplace(path);
    metadata = run_metadata(file->metadata());
    steps = detail::steps_of_checkpoint(metadata, trained_names(model), path);
    detail::check_checkpoint(*file, shared.tensors, path);
    if (ranks.rank() == 0) file->check_checksum();
  });
  try_together(ctx, ranks, [&] {
    for (const detail::checkpointed& t : shared.tensors)
      if (t.data != nullptr) detail::read_range(*file, ctx, t, 0, static_cast<std::byte*>(t.data), t.bytes);
    for (const detail::rank_range& r : shared.ranges) {
      const detail::checkpointed& t = shared.tensors[r.tensor];
      if (r.rank != ranks.rank() || (t.data != nullptr && r.data == static_cast<std::byte*>(t.data) + r.begin))
        continue;
      detail::read_range(*file, ctx, t, r.begin, r.data, r.bytes);
    }
  });
  detail::note_reading(ctx, model, optimizer, steps);
  return metadata;
}

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "shared_checkpoint.ipp"
#endif
