#pragma once
// The objects that belong to a context or stream, one per type.

#include <memory>
#include <utility>

namespace gradus::detail {

// At most one object of each type, constructed at first use, destroyed in reverse order.
class service_table {
 public:
  constexpr service_table() = default;
  service_table(const service_table&) = delete;
  service_table& operator=(const service_table&) = delete;
  constexpr ~service_table() {
    while (last_ != nullptr) delete std::exchange(last_, last_->before);
  }

  // The object of type T, constructed from `from` if there is none.
  template <class T, class From>
  T& get(From& from) {
    for (service* s = last_; s != nullptr; s = s->before)
      if (s->key == &key_of_type<T>) return static_cast<service_of<T>*>(s)->object;
    auto made = std::make_unique<service_of<T>>(from);
    made->before = last_;  // its constructor may have added others
    last_ = made.get();
    return made.release()->object;
  }

 private:
  struct service {
    const void* key;
    service* before = nullptr;

    explicit service(const void* k) : key(k) {}
    service(const service&) = delete;
    service& operator=(const service&) = delete;
    virtual ~service() = default;
  };
  template <class T>
  struct service_of : service {
    T object;

    template <class From>
    explicit service_of(From& from) : service(&key_of_type<T>), object(from) {}
  };
  // Has one address in a program and its shared libraries, for types that are as visible.
  template <class T>
  [[gnu::visibility("default")]] static constexpr char key_of_type = 0;

  service* last_ = nullptr;
};

}  // namespace gradus::detail
