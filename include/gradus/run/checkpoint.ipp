#pragma once
#include "checkpoint.hpp"

namespace gradus {

GRADUS_IMPL void run_metadata::set(const std::string& name, std::string_view text) { texts_[name] = text; }

GRADUS_IMPL const std::string& run_metadata::text(std::string_view name) const {
  const auto found = texts_.find(name);
  if (found == texts_.end()) throw error(std::string("it does not say '").append(name).append("'"));
  return found->second;
}

GRADUS_IMPL void run_metadata::refuse_number(std::string_view name, const std::string& text) {
  throw error(
      std::string("its '").append(name).append("' is '").append(text).append("', which is not a number of its kind"));
}

namespace detail {

inline constexpr std::string_view optimizer_prefix = "optimizer.";
inline constexpr const char* steps_name = "optimizer.steps";
inline constexpr const char* steps_of_parameter = "optimizer.steps.";  // and the parameter's name

GRADUS_IMPL void add_tensor(std::vector<checkpointed>& to, std::string_view name, std::string_view dtype,
                            std::size_t element_bytes, std::span<const index_t> extents, void* data,
                            bool changes_in_forward) {
  std::size_t count = 1;
  for (const index_t extent : extents) count *= extent;
  to.push_back({std::string(name), safetensors_dtype(dtype), std::vector<std::size_t>(extents.begin(), extents.end()),
                count, data, count * element_bytes, changes_in_forward});
}

GRADUS_IMPL void add_state(std::vector<checkpointed>& to, std::string_view state, std::string_view parameter,
                           std::string_view dtype, std::size_t size, void* data) {
  const std::string spelt = safetensors_dtype(dtype);
  to.push_back({std::string(optimizer_prefix) + std::string(state) + "." + std::string(parameter), spelt,
                std::vector<std::size_t>{size}, size, data, size * safetensors_element_bits(spelt) / 8});
}

}  // namespace detail

GRADUS_IMPL pending_checkpoint::pending_checkpoint(safetensors_writer file,
                                                   std::vector<std::shared_ptr<std::byte[]>> copies)
    : file_(std::move(file)), copies_(std::move(copies)) {}

GRADUS_IMPL void pending_checkpoint::write(const std::filesystem::path& path,
                                           const std::vector<std::filesystem::path>& older) const {
  file_.write(path, [&] {
    std::error_code problem;
    if (older.empty() || !std::filesystem::exists(path, problem)) return;
    for (std::size_t i = older.size() - 1; i > 0; --i) std::filesystem::rename(older[i - 1], older[i], problem);
    std::filesystem::remove(older.front(), problem);
    std::filesystem::create_hard_link(path, older.front(), problem);
    // Without hard links it is moved. Whoever resumes a run that was killed before the new one has its name finds it.
    if (problem) std::filesystem::rename(path, older.front(), problem);
  });
}

namespace detail {

GRADUS_IMPL pending_checkpoint make_checkpoint(const std::vector<checkpointed>& tensors,
                                               const checkpointed_steps& steps, const run_metadata& metadata,
                                               std::vector<std::shared_ptr<std::byte[]>> copies) {
  safetensors_writer file;
  for (const auto& [name, text] : metadata.all())
    if (!name.starts_with(steps_of_parameter))
      file.set_metadata(name, text);  // of another checkpoint, whose metadata it is
  file.set_metadata(steps_name, std::to_string(steps.optimizer));
  for (const auto& [name, taken] : steps.parameters)
    if (taken != steps.optimizer) file.set_metadata(steps_of_parameter + name, std::to_string(taken));
  file.add_checksum();
  for (const checkpointed& t : tensors) {
    if (t.source) file.add_parts(t.name, t.dtype, t.shape, t.count, t.source);
    else file.add_bytes(t.name, t.dtype, t.shape, t.count, {static_cast<const std::byte*>(t.data), t.bytes});
  }
  return pending_checkpoint(std::move(file), std::move(copies));
}

GRADUS_IMPL checkpointed_steps steps_of_checkpoint(const run_metadata& metadata, std::vector<std::string> parameters,
                                                   const std::filesystem::path& path) {
  try {
    checkpointed_steps steps{metadata.number<std::size_t>(steps_name), {}};
    for (std::string& name : parameters) {
      const std::string own = steps_of_parameter + name;
      const std::size_t taken = metadata.all().contains(own) ? metadata.number<std::size_t>(own) : steps.optimizer;
      if (taken > steps.optimizer) throw error("its '" + own + "' is above its '" + steps_name + "'");
      steps.parameters.emplace_back(std::move(name), taken);
    }
    return steps;
  } catch (const error& e) { throw error(path.string() + ": is not a checkpoint: " + e.what()); }
}

GRADUS_IMPL void check_checkpoint(const safetensors_file& file, const std::vector<checkpointed>& tensors,
                                  const std::filesystem::path& path) {
  for (const checkpointed& t : tensors) file.check(t.name, t.dtype, t.shape);
  if (tensors.size() != file.entries().size())
    throw error(path.string() + ": has " + std::to_string(file.entries().size()) + " tensors where this run has " +
                std::to_string(tensors.size()) + "; it is of another model or optimizer");
}

}  // namespace detail

GRADUS_IMPL run_metadata read_metadata(const std::filesystem::path& path) {
  return run_metadata(safetensors_file(path).metadata());
}

}  // namespace gradus
