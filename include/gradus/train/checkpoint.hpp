#pragma once
// Checkpoints: parameters, optimizer states and metadata in one safetensors file, from which a run is resumed bit for bit. Not part of
// gradus.hpp, for it needs nlohmann json.

#include <charconv>
#include <concepts>
#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <vector>

#include "../core/error.hpp"
#include "../io/safetensors.hpp"
#include "../nn/module.hpp"
#include "../optim/param_list.hpp"
#include "../tensor/creation.hpp"

namespace gradus {

/// The metadata of a checkpoint: named numbers and strings beside its tensors. Numbers read back as the same bits.
class run_metadata {
 public:
  run_metadata() = default;
  explicit run_metadata(std::map<std::string, std::string, std::less<>> texts) : texts_(std::move(texts)) {}

  void set(const std::string& name, std::string_view text) { texts_[name] = text; }
  template <class T>
    requires std::integral<T> || std::floating_point<T>
  void set(const std::string& name, T number) {
    char text[64];
    texts_[name] = std::string(text, std::to_chars(text, text + sizeof text, number).ptr);
  }
  /// Throws gradus::error if there is nothing of that name.
  const std::string& text(std::string_view name) const {
    const auto found = texts_.find(name);
    if (found == texts_.end()) throw error(std::string("it does not say '").append(name).append("'"));
    return found->second;
  }
  /// Throws gradus::error if there is nothing of that name, or if it is not a number of this type.
  template <class T>
  T number(std::string_view name) const {
    const std::string& t = text(name);
    T value{};
    const auto [end, problem] = std::from_chars(t.data(), t.data() + t.size(), value);
    if (problem != std::errc{} || end != t.data() + t.size())
      throw error(
          std::string("its '").append(name).append("' is '").append(t).append("', which is not a number of its kind"));
    return value;
  }
  const std::map<std::string, std::string, std::less<>>& all() const { return texts_; }

 private:
  std::map<std::string, std::string, std::less<>> texts_;
};

namespace detail {

inline constexpr std::string_view optimizer_prefix = "optimizer.";

// f(name, dtype, shape, elements, where it lies on the device, its bytes) for each tensor of a checkpoint. States that the optimizer has not made yet
// are made.
template <class D, class Model, class Optimizer, class F>
void for_each_checkpointed(context<D>& ctx, const Model& model, Optimizer& optimizer, const F& f) {
  for_each_param(model, [&](std::string_view name, const auto& p) {
    using P = std::remove_cvref_t<decltype(p)>;
    using T = typename P::value_type;
    const std::vector<std::size_t> shape(P::shape::extents.begin(), P::shape::extents.end());
    void* const data = const_cast<T*>(p.value().data());
    f(std::string(name), safetensors_dtype<T>(), shape, P::shape::size, data, P::shape::size * sizeof(T));
  });
  optimizer.for_each_state(ctx, model, [&](const named_state<D>& s) {
    const std::string dtype = safetensors_dtype(s.dtype);
    f(std::string(optimizer_prefix) + std::string(s.state) + "." + std::string(s.parameter), dtype,
      std::vector<std::size_t>{s.size}, s.size, s.data, s.size * safetensors_element_bytes(dtype));
  });
}

}  // namespace detail

/// A checkpoint that is yet to be written. What the host can address is not copied: until write() has returned, parameters and optimizer states must
/// stay where they are and as they are. In a training step that is so up to the optimizer's: forward and backward only read them. Of another
/// device's memory it holds a copy.
class pending_checkpoint {
 public:
  explicit pending_checkpoint(safetensors_writer file, std::vector<std::shared_ptr<std::byte[]>> copies = {})
      : file_(std::move(file)), copies_(std::move(copies)) {}

  /// Writes it in one step (see atomic_file), with a checksum; any thread may. Where `path` exists, that stays as the first of `older` (unless the
  /// file system has no hard links), what was there as the second, and so on; what was the last is gone. Throws gradus::error; files that were
  /// there are then as before.
  void write(const std::filesystem::path& path, const std::vector<std::filesystem::path>& older = {}) const {
    file_.write(path, [&] {
      std::error_code problem;
      if (older.empty() || !std::filesystem::exists(path, problem)) return;
      for (std::size_t i = older.size() - 1; i > 0; --i) std::filesystem::rename(older[i - 1], older[i], problem);
      std::filesystem::remove(older.front(), problem);
      std::filesystem::create_hard_link(path, older.front(), problem);
    });
  }

 private:
  safetensors_writer file_;
  std::vector<std::shared_ptr<std::byte[]>> copies_;  // of tensors that `file_` refers to
};

/// What write_checkpoint writes, for later or for another thread: the parameters under their names, the optimizer's states as
/// `optimizer.<state>.<parameter>`, its count of steps, and the metadata.
template <class D, class Model, class Optimizer>
pending_checkpoint prepare_checkpoint(context<D>& ctx, const Model& model, Optimizer& optimizer,
                                      const run_metadata& metadata) {
  safetensors_writer file;
  for (const auto& [name, text] : metadata.all()) file.set_metadata(name, text);
  file.set_metadata("optimizer.steps", std::to_string(optimizer.steps()));
  file.add_checksum();
  std::vector<std::shared_ptr<std::byte[]>> copies;
  detail::for_each_checkpointed(ctx, model, optimizer,
                                [&](const std::string& name, const std::string& dtype, const auto& shape,
                                    std::size_t count, void* data, std::size_t bytes) {
                                  auto* at = static_cast<std::byte*>(data);
                                  if constexpr (!D::host_addressable) {
                                    copies.push_back(std::make_unique_for_overwrite<std::byte[]>(bytes));
                                    at = copies.back().get();
                                    device_access<D>::download(ctx, at, data, bytes);
                                  }
                                  file.add_bytes(name, dtype, shape, count, std::span<const std::byte>(at, bytes));
                                });
  return pending_checkpoint(std::move(file), std::move(copies));
}

/// Writes a checkpoint: prepare_checkpoint(...).write(path, older).
template <class D, class Model, class Optimizer>
void write_checkpoint(const std::filesystem::path& path, context<D>& ctx, const Model& model, Optimizer& optimizer,
                      const run_metadata& metadata, const std::vector<std::filesystem::path>& older = {}) {
  prepare_checkpoint(ctx, model, optimizer, metadata).write(path, older);
}

/// What is known of a checkpoint before anything is read from it.
inline run_metadata read_metadata(const std::filesystem::path& path) {
  return run_metadata(safetensors_file(path).metadata());
}

/// Reads what write_checkpoint wrote into a model that is initialised and an optimizer of the same kind, and returns the metadata. Names,
/// types, sizes and the checksum are all checked before anything is changed. Throws gradus::error, which names the file and what is wrong.
template <class D, class Model, class Optimizer>
run_metadata read_checkpoint(const std::filesystem::path& path, context<D>& ctx, Model& model, Optimizer& optimizer) {
  safetensors_file file(path);
  run_metadata metadata(file.metadata());
  std::size_t steps = 0;
  try {
    steps = metadata.number<std::size_t>("optimizer.steps");
  } catch (const error& e) { throw error(path.string() + ": is not a checkpoint: " + e.what()); }
  std::size_t tensors = 0;
  detail::for_each_checkpointed(
      ctx, model, optimizer,
      [&](const std::string& name, const std::string& dtype, const auto& shape, std::size_t, void*, std::size_t) {
        ++tensors;
        file.check(name, dtype, shape);
      });
  if (tensors != file.entries().size())
    throw error(path.string() + ": has " + std::to_string(file.entries().size()) + " tensors where this run has " +
                std::to_string(tensors) + "; it is of another model or optimizer");
  file.check_checksum();
  std::vector<std::byte> staged;  // on its way to another device
  detail::for_each_checkpointed(
      ctx, model, optimizer,
      [&](const std::string& name, const std::string& dtype, const auto&, std::size_t, void* data, std::size_t bytes) {
        auto* at = static_cast<std::byte*>(data);
        if constexpr (!D::host_addressable) {
          staged.resize(bytes);
          at = staged.data();
        }
        file.read_bytes(name, dtype, std::span<std::byte>(at, bytes));
        if constexpr (!D::host_addressable) device_access<D>::upload(ctx, data, at, bytes);
      });
  for_each_param(model, [](std::string_view, auto& p) { p.edit(); });  // they have changed
  optimizer.set_steps(steps);
  return metadata;
}

}  // namespace gradus
