#pragma once
// One step of training: batches, gradients, update.

#include <functional>
#include <optional>

#include "run_memory.hpp"
#include "validation.hpp"

namespace gpt {

class step_runner {
  trainer& t_;
  int batches_;
  step_graph graph_;

 public:
  /// What a step is made of besides the model.
  struct parts {
    std::function<gr::token_batch<token, batch_size, sizes.context>()> next_batch;
    std::function<void()> before_update;
    std::function<bool()> stop;  ///< says to end before the last batch
  };

  step_runner(trainer& t, run_memory& memory, const options& o)
      : t_(t), batches_(o.accumulate), graph_(memory.transient, t.tape(), t.optimizer) {}

  /// Takes a step, batch by batch; nothing where it was told to stop, and no step is taken then. On the CPU it throws
  /// before the update where the loss of step number `step` is not finite; on a GPU that shows when the loss is read.
  std::optional<trainer::step_loss> take(const parts& p, long long step) {
    for (int i = 0; i < batches_; ++i) {
      if (i > 0 && p.stop()) {
        t_.abandon();
        return std::nullopt;
      }
      load(p, i);
      t_.accumulate(i);
    }
    const auto loss = t_.send_loss();
    if constexpr (!on_gpu) check_finite("loss", loss.value(), step);
    p.before_update();
    t_.update();
    return loss;
  }
  /// The same bits, submitted to a GPU as one graph.
  std::optional<trainer::step_loss> take_as_graph(const parts& p) {
    for (int i = 0; i < batches_; ++i) {
      if (i > 0 && p.stop()) return std::nullopt;
      load(p, i);
    }
    p.before_update();
    graph_.run([&] {
      for (int i = 0; i < batches_; ++i) t_.accumulate(i);
      t_.update();
    });
    return t_.send_loss();
  }

 private:
  void load(const parts& p, int i) {
    const auto batch = p.next_batch();
    t_.load(i, batch.inputs.data(), batch.targets.data());
  }
};

}  // namespace gpt
