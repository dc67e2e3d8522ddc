#pragma once
// The recorder inside a checkpoint region. Forward, it computes and keeps what the policy says; at backward it applies the same
// operations again on the tape, where they unwind as if they had been recorded there in the first place.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "save_policy.hpp"
#include "tape.hpp"

namespace gradus {

template <class Outer>
class region;

namespace detail {

template <class Recorder>
struct tape_under {
  using type = Recorder;
};
template <class Outer>
struct tape_under<region<Outer>> : tape_under<Outer> {};

// One address for each operation on operands of given types.
template <class Op, class... Tensors>
inline constexpr char key_of = 0;

// A traced argument of a region, as it is kept until backward.
template <class V>
struct region_argument {
  V value;
  gradient_slot<V>* slot;
};

// Forward inside another region's forward, forward on its own account, or again at backward.
enum class region_mode { mute, forward, again };

template <class X>
constexpr unsigned maker_of(const X& x) {
  if constexpr (is_traced<X>) return x.maker();
  else return 0;
}

}  // namespace detail

/// The recorder of the traced values within a checkpoint region of `Outer`, which is a tape or another region. checkpoint() makes it.
template <class Outer>
class region {
 public:
  using device = typename Outer::device;
  using tape_type = typename detail::tape_under<Outer>::type;

  region(const region&) = delete;
  region& operator=(const region&) = delete;

  /// The tape's context, which gives the region its memory.
  constexpr context<device>& owner() const { return tape_->owner(); }
  /// The tape's next key for a random operation. At backward the region gets the same ones again.
  constexpr random_key next_key() { return tape_->next_key(); }
  /// The value of operation `maker` is looked at outside of operations, and so has to be there at backward too: it is missing
  /// (`present` is false) if forward did not look at it. Called by traced::value().
  constexpr void note_read(unsigned maker, bool present) {
    if (mode_ == mode::forward) tape_->regions_.read(maker);
    if (mode_ == mode::again && !present) fail_different();
  }

  /// Applies an operation inside the region. Called by apply().
  template <class Op, class... Xs>
  constexpr auto record(const Op& op, Xs&&... xs) {
    (tape_->check_operand(*this, xs), ...);
    constexpr const void* key = &detail::key_of<Op, tensor_of<Xs>...>;
    const unsigned makers[] = {detail::maker_of(xs)...};
    const std::uint64_t inputs = digest_of(makers) + (detail::version_number(xs) + ... + 0u);
    if (mode_ == mode::again) return apply_again(key, inputs, op, std::forward<Xs>(xs)...);
    tape_->note_uses(xs...);
    using Kept = decltype(detail::run<true, Op>(owner(), phase::forward, op, std::forward<Xs>(xs)...));
    using Output = typename detail::forward_result<Kept>::output;
    constexpr bool has_statistics = !std::is_same_v<Kept, Output>;
    const phase when = tape_->phase_;
    bool keep = false;
    if (mode_ == mode::forward) {
      std::size_t bytes = Output::bytes;
      if constexpr (has_statistics) bytes += detail::forward_result<Kept>::statistics::bytes;
      keep = policy_->saves({detail::name_of(op), detail::family_of<Op>::type::name, count_,
                             detail::forward_cost_of<Op, tensor_of<Xs>...>(), bytes});
      tape_->regions_.add(key, inputs, keep, Op::saves.output || has_statistics, Op::saves.inputs, makers);
    }
    ++count_;
    if (keep) {
      auto result = detail::run<true, Op>(owner(), when, op, std::forward<Xs>(xs)...);
      Output out = detail::output_of(result);
      detail::note_result(owner(), detail::name_of(op), result);
      keep_result(key, std::move(result));
      return value(std::move(out));
    }
    return value(detail::run<false, Op>(owner(), when, op, std::forward<Xs>(xs)...));
  }

  /// Runs `f` on the arguments as a region of `outer`. Called by checkpoint().
  template <class F, class... Xs>
  static constexpr auto enter(Outer& outer, detail::any_policy& policy, F f, Xs&&... xs) {
    tape_type& tape = tape_of(outer);
    tape.begin_if_unwound();
    (tape.check_operand(outer, xs), ...);
    constexpr const void* key = &detail::key_of<F, tensor_of<Xs>...>;
    if constexpr (!std::is_same_v<Outer, tape_type>) {
      if (outer.mode_ != mode::again) return outer.enter_mute(key, tape, f, std::forward<Xs>(xs)...);
      const unsigned makers[] = {detail::maker_of(xs)...};
      outer.next_entry(key, digest_of(makers));
    }
    std::tuple args{kept_argument(detail::taken_operand(std::forward<Xs>(xs), xs...))...};
    const std::uint32_t draws = tape.ordinal_;
    const std::size_t first = tape.regions_.entries.size();
    region inner(tape, mode::forward, first);
    inner.policy_ = &policy;
    auto outputs = as_tuple(inner.call(f, args));
    inner.decide(policy);
    using Node = region_node<F, decltype(args), decltype(slots_for(outputs))>;
    std::apply([&](const auto&... kept) { (note_argument(tape, kept), ...); }, args);
    const std::uint64_t made = digest_of_outputs(outputs);
    Node* n = tape.template push<Node>(tape, std::move(f), std::move(args), draws, first, inner.count_, made);
    n->kept = std::exchange(inner.kept_, nullptr);
    return leave(outer, std::move(outputs), &n->slots);
  }

 private:
  using mode = detail::region_mode;

  template <class>
  friend class region;

  // A result that the policy keeps, in the order of the operations.
  struct kept_entry {
    void (*destroy)(kept_entry*) = nullptr;
    kept_entry* next = nullptr;
    const void* key = nullptr;
    std::size_t entry = 0;
  };
  template <class Result>
  struct kept_result : kept_entry {
    Result result;
    constexpr explicit kept_result(Result r) : result(std::move(r)) {}
  };

  template <class F, class Args, class Slots>
  struct region_node : node {
    Slots slots;
    tape_type* tape;
    F f;
    Args args;
    std::uint32_t draws;
    std::size_t first, count;
    std::uint64_t made;  // digest of the outputs' makers
    kept_entry* kept = nullptr;

    constexpr region_node(tape_type& on, F body, Args a, std::uint32_t draws_before, std::size_t first_entry,
                          std::size_t entries, std::uint64_t outputs)
        : node{&run, nullptr, nullptr},
          tape(&on),
          f(std::move(body)),
          args(std::move(a)),
          draws(draws_before),
          first(first_entry),
          count(entries),
          made(outputs) {}
    region_node(const region_node&) = delete;
    region_node& operator=(const region_node&) = delete;
    constexpr ~region_node() {
      destroy_list(kept);
      tape->regions_.entries.resize(first);
    }

    static constexpr void run(node* n) {
      auto* self = static_cast<region_node*>(n);
      const bool wanted =
          std::apply([](const auto&... slot) { return (static_cast<bool>(slot.value()) || ...); }, self->slots);
      if (wanted) self->again();
      self->tape->unwind_to(self);
    }
    constexpr void again() {
      region inner(*tape, mode::again, first);
      inner.expected_ = count;
      inner.kept_ = std::exchange(kept, nullptr);
      const std::uint32_t draws_now = std::exchange(tape->ordinal_, draws);
      const phase phase_now = std::exchange(tape->phase_, phase::recompute);
      auto outputs = as_tuple(inner.call(f, args));
      if (inner.count_ != count || digest_of_outputs(outputs) != made) fail_different();
      tape->ordinal_ = draws_now;
      tape->phase_ = phase_now;
      [&]<std::size_t... I>(std::index_sequence<I...>) {
        (seed(std::get<I>(outputs), std::get<I>(slots)), ...);
      }(std::make_index_sequence<std::tuple_size_v<Slots>>{});
    }
    template <class Y, class Slot>
    static constexpr void seed(const Y& y, Slot& slot) {
      if (y.slot() != nullptr && slot.value()) y.slot()->give(slot.take());
    }
  };

  constexpr region(tape_type& tape, mode m, std::size_t first) : tape_(&tape), mode_(m), first_(first) {}
  constexpr ~region() {
    destroy_list(kept_);
    if (mode_ == mode::forward) tape_->regions_.graph.clear();
  }

  [[noreturn]] static void fail_different() {
    throw error(
        "checkpoint: at backward the region applied other operations, or had other parameters, than before; it must "
        "depend on its arguments alone, and parameters change after backward()");
  }
  static constexpr tape_type& tape_of(Outer& outer) {
    if constexpr (std::is_same_v<Outer, tape_type>) return outer;
    else return *outer.tape_;
  }
  static constexpr void destroy_list(kept_entry*& list) {
    while (list != nullptr) {
      kept_entry* e = std::exchange(list, list->next);
      e->destroy(e);
    }
  }

  // ---- forward ---------------------------------------------------------------------------------------------------------
  template <class V>
  constexpr auto value(V v) {
    return traced<V, region>(std::move(v), this, nullptr, tape_->counter_->era, static_cast<unsigned>(count_));
  }
  template <class Result>
  constexpr void keep_result(const void* key, Result result) {
    auto* e = tape_->template place<kept_result<Result>>(std::move(result));
    e->key = key;
    e->entry = first_ + count_ - 1;
    *(kept_ == nullptr ? &kept_ : &last_kept_->next) = e;
    last_kept_ = e;
  }
  // The region has run forward: what is not needed again goes.
  constexpr void decide(detail::any_policy& policy) {
    if (const std::string_view name = policy.missing(); !name.empty()) fail_missing(name);
    policy.inspect(tape_->regions_.graph);
    tape_->regions_.decide(first_);
    for (kept_entry** at = &kept_; *at != nullptr;) {
      kept_entry* e = *at;
      if (tape_->regions_.entries[e->entry].becomes == fate::take) {
        at = &e->next;
        continue;
      }
      *at = e->next;
      e->destroy(e);
    }
  }
  [[noreturn]] static void fail_missing(std::string_view name) {
    throw error("checkpoint<policy>: the policy names '" + std::string(name) +
                "', and the region applies nothing of that name");
  }

  // A region inside one that runs forward: computed only, and one operation to it, which keeps its arguments. The policy hears
  // of it, so that its numbers are those of the log, and has no say: there is no result to keep.
  template <class F, class... Xs>
  constexpr auto enter_mute(const void* key, tape_type& tape, F& f, Xs&&... xs) {
    using Inner = region<region>;
    const unsigned makers[] = {detail::maker_of(xs)...};
    Inner inner(tape, Inner::mode::mute, 0);
    std::tuple args{kept_argument(detail::taken_operand(std::forward<Xs>(xs), xs...))...};
    auto outputs = as_tuple(inner.call(f, args));
    if (mode_ == mode::forward) {
      policy_->saves({"checkpoint", "checkpoint", count_, {}, 0});
      tape_->regions_.add(key, digest_of(makers), false, true, ~0u, makers);
    }
    ++count_;
    return Inner::leave(*this, std::move(outputs), static_cast<decltype(Inner::slots_for(outputs))*>(nullptr));
  }

  template <class Kept>
  static constexpr void note_argument(const tape_type& tape, const Kept& kept) {
    if constexpr (requires { kept.slot; }) detail::note_saved(tape.owner(), "checkpoint", kept.value);
    else detail::note_saved(tape.owner(), "checkpoint", kept);
  }

  // ---- at backward -------------------------------------------------------------------------------------------------------
  constexpr fate next_entry(const void* key, std::uint64_t inputs) {
    if (count_ == expected_) fail_different();
    const region_entry& e = tape_->regions_.entries[first_ + count_++];
    if (e.key != key || e.inputs != inputs) fail_different();
    return e.becomes;
  }
  template <class Op, class... Xs>
  constexpr auto apply_again(const void* key, std::uint64_t inputs, const Op& op, Xs&&... xs) {
    const fate f = next_entry(key, inputs);
    auto kept = detail::kept_inputs<Op, Xs...>(xs...);
    using Result = decltype(detail::run<true, Op>(owner(), phase::recompute, op, std::forward<Xs>(xs)...));
    Result result{};
    if (f == fate::compute) result = detail::run<true, Op>(owner(), phase::recompute, op, std::forward<Xs>(xs)...);
    if (f == fate::take) result = take<Result>(key);
    using rules = detail::call_rules<Op, std::remove_cvref_t<Xs>...>;
    return tape_->template attach<typename rules::products>(*this, op, std::move(kept), std::move(result),
                                                            static_cast<unsigned>(count_));
  }
  template <class Result>
  constexpr Result take(const void* key) {
    if (kept_ == nullptr || kept_->key != key) fail_different();
    kept_entry* e = std::exchange(kept_, kept_->next);
    Result r = std::move(static_cast<kept_result<Result>*>(e)->result);
    e->destroy(e);
    return r;
  }

  // ---- arguments and outputs -----------------------------------------------------------------------------------------------
  template <class X>
  static constexpr auto kept_argument(X&& x) {
    using raw = std::remove_cvref_t<X>;
    if constexpr (is_traced<raw>) {
      auto* slot = x.slot();
      return detail::region_argument<tensor_of<raw>>{std::forward<X>(x).carried(), slot};
    } else if constexpr (is_param<raw>) {
      return &std::as_const(x);
    } else {
      return raw(std::forward<X>(x));
    }
  }
  template <class V>
  constexpr traced<V, region> argument(detail::region_argument<V>& kept) {
    if (mode_ == mode::again) return {std::move(kept.value), this, kept.slot, tape_->counter_->era};
    return {kept.value, this, nullptr, tape_->counter_->era};
  }
  template <class P>
  static constexpr const P& argument(const P* kept) {
    return *kept;
  }
  template <class T, class S>
  constexpr tensor<T, S, device> argument(tensor<T, S, device>& kept) {
    if (mode_ == mode::again) return std::move(kept);
    return kept;
  }
  template <class F, class Args>
  constexpr auto call(const F& f, Args& args) {
    return std::apply([&](auto&... kept) { return f(argument(kept)...); }, args);
  }
  template <class Made>
  static constexpr auto as_tuple(Made made) {
    if constexpr (detail::is_tuple_like<Made>)
      return std::apply([](auto&&... y) { return std::tuple{std::forward<decltype(y)>(y)...}; }, std::move(made));
    else return std::tuple{std::move(made)};
  }
  template <class... Ys>
  static constexpr std::tuple<gradient_slot<tensor_of<Ys>>...> slots_for(const std::tuple<Ys...>&) {
    return {};
  }
  template <class... Ys>
  static constexpr std::uint64_t digest_of_outputs(const std::tuple<Ys...>& outputs) {
    return std::apply(
        [](const auto&... y) {
          const unsigned makers[] = {y.maker()...};
          return digest_of(makers);
        },
        outputs);
  }
  // The region's outputs as values of `outer`; one alone is not put in a tuple.
  template <class... Ys, class Slots>
  static constexpr auto leave(Outer& outer, std::tuple<Ys...> outputs, Slots* slots) {
    unsigned maker = 0;
    if constexpr (!std::is_same_v<Outer, tape_type>) maker = static_cast<unsigned>(outer.count_);
    const auto one = [&]<std::size_t I>(std::integral_constant<std::size_t, I>) {
      using V = std::tuple_element_t<I, std::tuple<tensor_of<Ys>...>>;
      gradient_slot<V>* slot = nullptr;
      if constexpr (is_floating<typename V::value_type>)
        if (slots != nullptr) slot = &std::get<I>(*slots);
      const unsigned& era = tape_of(outer).counter_->era;
      return traced<V, Outer>(std::move(std::get<I>(outputs)).carried(), &outer, slot, era, maker);
    };
    if constexpr (sizeof...(Ys) == 1) return one(std::integral_constant<std::size_t, 0>{});
    else
      return [&]<std::size_t... I>(std::index_sequence<I...>) {
        return std::tuple{one(std::integral_constant<std::size_t, I>{})...};
      }(std::index_sequence_for<Ys...>{});
  }

  tape_type* tape_;
  mode mode_;
  detail::any_policy* policy_ = nullptr;
  std::size_t first_;         // the region's first entry in the log
  std::size_t count_ = 0;     // operations applied so far
  std::size_t expected_ = 0;  // operations that were applied forward
  kept_entry* kept_ = nullptr;
  kept_entry* last_kept_ = nullptr;
};

}  // namespace gradus
