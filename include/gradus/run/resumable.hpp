#pragma once
// What a run saves and continues.

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "../core/config.hpp"
#include "../memory/context.hpp"
#include "../model/parameters.hpp"
#include "../optim/model_traits.hpp"
#include "../optim/param_pieces.hpp"
#include "../ranks/communicator.hpp"
#include "checkpoint.hpp"
#include "model_file.hpp"
#include "shared_checkpoint.hpp"

namespace gradus {

/// What a run saves and continues: a model, its optimizer, and whatever else decides the next step.
class resumable {
 public:
  using path = std::filesystem::path;

  virtual ~resumable() = default;

  /// Whether ranks divide the optimizer's states, so that read() and write() are collectives.
  virtual bool shares_states() const { return false; }
  /// Whether ranks divide the parameters as well, so that find_not_finite() and writing a model are collectives.
  virtual bool shares_parameters() const { return false; }

  /// Adds to a checkpoint's metadata what neither the model nor the optimizer has: a loss scale, say.
  virtual void describe(run_metadata&) const {}
  /// Takes what describe() added to a checkpoint that was read, of a run of `steps` steps.
  virtual void resume([[maybe_unused]] const run_metadata& from, [[maybe_unused]] long long steps) {}
  /// Drops the gradients of a step that is not finished.
  virtual void abandon() = 0;

  /// A value of this rank that is infinite or NaN, "the parameter NAME"; empty if there is none.
  virtual std::string find_not_finite() = 0;
  /// Reads a checkpoint. Throws gradus::error, which names the file and what is wrong.
  virtual run_metadata read(const path& file) = 0;
  /// Writes a checkpoint, and keeps the ones before as `older`. Throws gradus::error.
  virtual void write(const path& file, const run_metadata& about, const std::vector<path>& older) = 0;
  /// Prepares a checkpoint that another thread may write, while steps only read parameters and states.
  virtual std::function<void(const path& file, const std::vector<path>& older)> prepare(const run_metadata& about) = 0;
  /// Writes the model alone, for use, and calls before_each() (unless it is empty) before it reads each tensor.
  virtual void write_model(const path& file, const std::function<void()>& before_each) = 0;
  /// On a rank that does not write the model: uses its tensors in their order, while next() is true.
  virtual void read_with_writer([[maybe_unused]] const std::function<bool()>& next) {}
};

/// A model and its optimizer, made of the model or of a rank's pieces of it. A derived class adds what its runs need.
template <class D, class Net, class Optimizer>
class resumable_model : public resumable {
 public:
  using traits = model_traits<Net>;
  using pieces_type = param_pieces<typename traits::value_type, D, typename traits::gradient_value_type>;

  /// All must outlive this. `ranks` (unless null) train the model together, and `pieces` (unless null) are this rank's.
  resumable_model(context<D>& ctx, Net& net, Optimizer& optimizer, communicator<D>* ranks = nullptr,
                  const pieces_type* pieces = nullptr)
      : ctx_(ctx), net_(net), optimizer_(optimizer), ranks_(ranks), pieces_(pieces) {}

  bool shares_states() const override { return pieces_ != nullptr; }
  void abandon() override { optimizer_.clear_gradients(); }
  std::string find_not_finite() override {
    if (shares_parameters()) return own_values_are_finite(ctx_, *pieces_) ? "" : "a parameter";
    const std::string name = gradus::find_not_finite(net_);
    return name.empty() ? "" : "the parameter " + name;
  }
  run_metadata read(const path& file) override {
    if (pieces_ != nullptr) return read_checkpoint(file, ctx_, net_, optimizer_, *pieces_, *ranks_);
    if (ranks_ == nullptr || ranks_->size() == 1) return read_checkpoint(file, ctx_, net_, optimizer_);
    run_metadata about;  // each rank reads for itself; an error of one is thrown on all
    try_together(ctx_, *ranks_, [&] { about = read_checkpoint(file, ctx_, net_, optimizer_); });
    return about;
  }
  void write(const path& file, const run_metadata& about, const std::vector<path>& older) override {
    if (pieces_ != nullptr) write_checkpoint(file, ctx_, net_, optimizer_, about, older, *pieces_, *ranks_);
    else write_checkpoint(file, ctx_, net_, optimizer_, about, older);
  }
  std::function<void(const path&, const std::vector<path>&)> prepare(const run_metadata& about) override {
    return [checkpoint = prepare_checkpoint(ctx_, net_, optimizer_, about)](
               const path& file, const std::vector<path>& older) { checkpoint.write(file, older); };
  }
  void write_model(const path& file, const std::function<void()>& before_each) override {
    save(net_, file, {}, before_each);
  }
  void read_with_writer(const std::function<bool()>& next) override {
    bool more = true;
    for_each_trained_tensor(net_, [&](std::string_view, const auto& p) {
      more = more && next();
      if (more) static_cast<void>(p.value().data());
    });
    if (more) next();  // the end
  }

 protected:
  context<D>& ctx_;
  Net& net_;
  Optimizer& optimizer_;
  communicator<D>* ranks_;
  const pieces_type* pieces_;
};

/// A model_training as a run saves it: with its loss scale, its random draws and the norms of its gradients.
template <class Training>
class resumable_training
    : public resumable_model<typename Training::device, typename Training::network, typename Training::optimizer_type> {
  using base =
      resumable_model<typename Training::device, typename Training::network, typename Training::optimizer_type>;

 public:
  explicit resumable_training(Training& t) : base(t.states(), t.net, t.optimizer, t.ranks(), t.pieces()), t_(t) {}

  bool shares_parameters() const override { return t_.shares_parameters(); }
  void describe(run_metadata& about) const override {
    about.set("loss_scale", t_.loss_scale());
    about.set("clean_steps", t_.clean_steps());
    if (t_.options().skip_spikes > 0)
      t_.spikes.for_each_number([&](const char* name, auto& number) { about.set(name, number); });
  }
  void resume(const run_metadata& from, long long steps) override {
    const auto scale = from.number<double>("loss_scale");
    const int clean = from.number<int>("clean_steps");
    if (!std::isfinite(scale) || scale < std::numeric_limits<float>::min() || clean < 0)
      throw error("its loss scale is '" + from.text("loss_scale") + "', which cannot be");
    if (from.all().contains("norm_count"))  // not in runs that did not ask for it
      t_.spikes.for_each_number([&]<class T>(const char* name, T& number) { number = from.number<T>(name); });
    t_.resume_after(static_cast<std::uint32_t>(steps * t_.options().accumulate), scale, clean);
  }
  void abandon() override { t_.abandon(); }

 protected:
  Training& t_;
};

}  // namespace gradus
