// expect: input<I>\(saved\): the operation's .saves. does not list this input
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
#define SAVES gradus::save_nothing()
#else
#define SAVES gradus::save_inputs(0)
#endif

struct op {
  static constexpr std::string_view name = "op";
  template <class T>
  T forward(auto, const T& x) const {
    return x;
  }
  static constexpr gradus::save_rule saves = SAVES;
  template <class Saved, class T>
  void backward(const Saved& saved, T, const gradus::gradient_sink<T>& dx) const {
    dx.give(gradus::input<0>(saved));
  }
};
auto f(gradus::tape<gradus::cpu>& tape, const gradus::tensor<float, gradus::shape<2>>& x) {
  return gradus::apply(op{}, tape.variable(x));
}
