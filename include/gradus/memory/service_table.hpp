#pragma once
// The objects that belong to a context or stream, one per type.

#include <memory>
#include <type_traits>
#include <vector>

namespace gradus::detail {

// At most one object of each type, constructed at first use, destroyed in reverse order.
class service_table {
 public:
  constexpr service_table() = default;
  service_table(const service_table&) = delete;
  service_table& operator=(const service_table&) = delete;
  constexpr ~service_table() {
    if (std::is_constant_evaluated()) return;
    for (auto s = all_.rbegin(); s != all_.rend(); ++s) s->destroy(s->object);
  }

  // The object of type T, constructed from `from` if there is none.
  template <class T, class From>
  T& get(From& from) {
    for (const service& s : all_)
      if (s.key == &key_of_type<T>) return *static_cast<T*>(s.object);
    auto made = std::make_unique<T>(from);
    all_.push_back({&key_of_type<T>, made.get(), [](void* p) { delete static_cast<T*>(p); }});
    return *made.release();
  }

 private:
  struct service {
    const void* key;
    void* object;
    void (*destroy)(void*);
  };
  // Has one address in a program and its shared libraries, for types that are as visible.
  template <class T>
  [[gnu::visibility("default")]] static constexpr char key_of_type = 0;

  std::vector<service> all_;
};

}  // namespace gradus::detail
