#pragma once
// Checkpoints: a model, optimizer states and metadata in one safetensors file, from which a run resumes bit for bit.
// Unless it is compiled separately it includes nlohmann/json, so gradus.hpp does not include it.

#include <algorithm>
#include <charconv>
#include <concepts>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include "../core/config.hpp"
#include "../core/dtype.hpp"
#include "../core/error.hpp"
#include "../core/extent.hpp"
#include "../core/parse_number.hpp"
#include "../io/safetensors.hpp"
#include "../model/parameters.hpp"
#include "../optim/param_list.hpp"
#include "../tensor/creation.hpp"

namespace gradus {

/// The metadata of a checkpoint: named numbers and strings beside its tensors. Numbers read back as the same bits.
class run_metadata {
 public:
  run_metadata() = default;
  explicit run_metadata(std::map<std::string, std::string, std::less<>> texts) : texts_(std::move(texts)) {}

  void set(const std::string& name, std::string_view text);
  template <class T>
    requires std::integral<T> || std::floating_point<T>
  void set(const std::string& name, T number) {
    char text[64];
    const auto end = std::to_chars(text, text + sizeof text, number).ptr;
    set(name, std::string_view(text, static_cast<std::size_t>(end - text)));
  }
  /// Throws gradus::error if there is no entry of that name.
  const std::string& text(std::string_view name) const;
  /// Throws gradus::error if there is no entry of that name, or if it is not a number of this type.
  template <class T>
  T number(std::string_view name) const {
    const std::string& t = text(name);
    const std::optional<T> value = parse_number<T>(t);
    if (!value) refuse_number(name, t);
    return *value;
  }
  const std::map<std::string, std::string, std::less<>>& all() const { return texts_; }

 private:
  [[noreturn]] static void refuse_number(std::string_view name, const std::string& text);

  std::map<std::string, std::string, std::less<>> texts_;
};

namespace detail {

// A tensor of a checkpoint.
struct checkpointed {
  std::string name;
  std::string dtype;  // as safetensors spells it
  std::vector<std::size_t> shape;
  std::size_t count = 0;  // elements
  void* data = nullptr;
  std::size_t bytes = 0;
  bool changes_in_forward = false;
  safetensors_writer::byte_source source = nullptr;  // of the bytes to write; null: `data`
};
void add_tensor(std::vector<checkpointed>& to, std::string_view name, std::string_view dtype, std::size_t element_bytes,
                std::span<const index_t> extents, void* data, bool changes_in_forward);
void add_state(std::vector<checkpointed>& to, std::string_view state, std::string_view parameter,
               std::string_view dtype, std::size_t size, void* data);

// The tensors of a checkpoint, on the device. Makes states that the optimizer does not have yet.
template <class D, class Model, class Optimizer>
std::vector<checkpointed> checkpointed_tensors(context<D>& ctx, const Model& model, Optimizer& optimizer) {
  std::vector<checkpointed> all;
  for_each_trained_tensor(model, [&]<class P>(std::string_view name, const P& p) {
    using T = typename P::value_type;
    add_tensor(all, name, dtype_name<T>(), sizeof(T), P::shape::extents, const_cast<T*>(p.value().data()), is_state<P>);
  });
  optimizer.for_each_state(
      ctx, model, [&](const named_state<D>& s) { add_state(all, s.state, s.parameter, s.dtype, s.size, s.data); });
  return all;
}

// Steps that the parameters of a model took, by name, and how many the optimizer took.
struct checkpointed_steps {
  std::size_t optimizer;
  std::vector<std::pair<std::string, std::size_t>> parameters;
};
template <class Model, class Optimizer>
checkpointed_steps steps_of(const Model& model, const Optimizer& optimizer) {
  checkpointed_steps steps{optimizer.steps(), {}};
  const std::vector<std::size_t> own = optimizer.steps_by_parameter();
  for (std::string& name : trained_names(model))
    steps.parameters.emplace_back(std::move(name), own[steps.parameters.size()]);
  return steps;
}

}  // namespace detail

/// A checkpoint that is not written yet. It refers to memory that the host can address: parameters and optimizer states
/// must not change until write() has returned. (Forward and backward only read them; an optimizer's step changes them.)
/// It holds a copy of the model's states, which forward changes, and of another device's memory.
class pending_checkpoint {
 public:
  explicit pending_checkpoint(safetensors_writer file, std::vector<std::shared_ptr<std::byte[]>> copies = {});

  /// Writes the file atomically (see atomic_file), with a checksum; any thread may call this. An existing file at
  /// `path` moves to the first of `older`, that one to the second, and so on; the last one is deleted. (On a file
  /// system without hard links it is replaced.) Throws gradus::error, and leaves all files unchanged.
  void write(const std::filesystem::path& path, const std::vector<std::filesystem::path>& older = {}) const;

 private:
  safetensors_writer file_;
  std::vector<std::shared_ptr<std::byte[]>> copies_;  // of tensors that `file_` refers to
};

namespace detail {

// `copies` hold tensors that the host cannot address, and states.
pending_checkpoint make_checkpoint(const std::vector<checkpointed>& tensors, const checkpointed_steps& steps,
                                   const run_metadata& metadata, std::vector<std::shared_ptr<std::byte[]>> copies);
// Steps of the optimizer and of each parameter.
checkpointed_steps steps_of_checkpoint(const run_metadata& metadata, std::vector<std::string> parameters,
                                       const std::filesystem::path& path);
// Throws gradus::error unless the file has these tensors and no others.
void check_checkpoint(const safetensors_file& file, const std::vector<checkpointed>& tensors,
                      const std::filesystem::path& path);

inline constexpr std::size_t checkpoint_part = std::size_t{1} << 22;  // bytes that are staged at a time

// Reads `bytes` of a tensor from byte `begin` on, to `to` on the device.
template <class D>
void read_range(safetensors_file& file, context<D>& ctx, const checkpointed& t, std::size_t begin, std::byte* to,
                std::size_t bytes) {
  if constexpr (D::host_addressable) {
    file.read_bytes(t.name, t.dtype, begin, std::span(to, bytes));
  } else {
    std::vector<std::byte> staged(std::min(bytes, checkpoint_part));
    for (std::size_t at = 0; at < bytes; at += staged.size()) {
      staged.resize(std::min(staged.size(), bytes - at));
      file.read_bytes(t.name, t.dtype, begin + at, staged);
      device_access<D>::upload(ctx, to + at, staged.data(), staged.size());
    }
  }
}

}  // namespace detail

/// Prepares a checkpoint to be written later or by another thread: parameters and states under their names, optimizer
/// states as `optimizer.STATE.PARAMETER`, and the metadata, with the steps of the optimizer as `optimizer.steps`, and
/// of a parameter that took fewer as `optimizer.steps.PARAMETER`.
template <class D, class Model, class Optimizer>
pending_checkpoint prepare_checkpoint(context<D>& ctx, const Model& model, Optimizer& optimizer,
                                      const run_metadata& metadata) {
  std::vector<detail::checkpointed> tensors = detail::checkpointed_tensors(ctx, model, optimizer);
  std::vector<std::shared_ptr<std::byte[]>> copies;
  for (detail::checkpointed& t : tensors)
    if (!D::host_addressable || t.changes_in_forward) {
      copies.push_back(std::make_unique_for_overwrite<std::byte[]>(t.bytes));
      device_access<D>::download(ctx, copies.back().get(), t.data, t.bytes);
      t.data = copies.back().get();
    }
  return detail::make_checkpoint(tensors, detail::steps_of(model, optimizer), metadata, std::move(copies));
}

/// Writes a checkpoint: prepare_checkpoint(...).write(path, older).
template <class D, class Model, class Optimizer>
void write_checkpoint(const std::filesystem::path& path, context<D>& ctx, const Model& model, Optimizer& optimizer,
                      const run_metadata& metadata, const std::vector<std::filesystem::path>& older = {}) {
  prepare_checkpoint(ctx, model, optimizer, metadata).write(path, older);
}

/// Reads the metadata of a checkpoint only. Throws gradus::error.
run_metadata read_metadata(const std::filesystem::path& path);

namespace detail {

// After values and states were read: counts the change, and sets the steps taken.
template <class D, class Model, class Optimizer>
void note_reading(context<D>& ctx, Model& model, Optimizer& optimizer, const checkpointed_steps& steps) {
  for_each_trained_tensor(model, [](auto, auto& p) { p.edit(); });
  std::vector<std::size_t> own;
  for (const auto& [name, taken] : steps.parameters) own.push_back(taken);
  optimizer.set_steps(ctx, steps.optimizer, own);
}

}  // namespace detail

/// Reads a checkpoint into an initialised model and an optimizer of the same kind, and returns the metadata. Checks
/// names, types, sizes and the checksum before it changes anything. Throws gradus::error, which names the file and what
/// is wrong.
template <class D, class Model, class Optimizer>
run_metadata read_checkpoint(const std::filesystem::path& path, context<D>& ctx, Model& model, Optimizer& optimizer) {
  safetensors_file file(path);
  run_metadata metadata(file.metadata());
  const detail::checkpointed_steps steps = detail::steps_of_checkpoint(metadata, trained_names(model), path);
  const std::vector<detail::checkpointed> tensors = detail::checkpointed_tensors(ctx, model, optimizer);
  detail::check_checkpoint(file, tensors, path);
  file.check_checksum();
  for (const detail::checkpointed& t : tensors)
    detail::read_range(file, ctx, t, 0, static_cast<std::byte*>(t.data), t.bytes);
  detail::note_reading(ctx, model, optimizer, steps);
  return metadata;
}

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "checkpoint.ipp"
#endif
