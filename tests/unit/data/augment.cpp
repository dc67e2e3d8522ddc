#include <doctest/doctest.h>

#include <cstdint>
#include <functional>
#include <gradus/data/augment.hpp>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "../../support/message_of.hpp"

using gradus::index_t;
using gradus_test::message_of;

namespace {

// Images whose elements are 1, 2, 3 ...: what moved can be told.
gradus::host_array<int> counted(std::vector<index_t> extents) {
  gradus::host_array<int> images{std::move(extents), {}};
  images.values.resize(std::accumulate(images.extents.begin(), images.extents.end(), index_t{1}, std::multiplies<>()));
  std::iota(images.values.begin(), images.values.end(), 1);
  return images;
}
// Element (c, y, x) of image i of [N, C, H, W], moved; 0 outside.
int moved(const gradus::host_array<int>& from, index_t i, index_t c, int y, int x, bool flip) {
  const int height = static_cast<int>(from.extents[2]), width = static_cast<int>(from.extents[3]);
  if (flip) x = width - 1 - x;
  if (y < 0 || y >= height || x < 0 || x >= width) return 0;
  return from.values[((i * from.extents[1] + c) * from.extents[2] + static_cast<index_t>(y)) * from.extents[3] +
                     static_cast<index_t>(x)];
}

}  // namespace

TEST_CASE("each image is moved and mirrored as a whole, in all its channels, by each of the draws in turn") {
  const auto images = counted({200, 2, 4, 5});
  const auto made = gradus::shift_and_flip(images, {.shift = 1, .flip = true}, {.seed = 3});
  CHECK(made.extents == images.extents);
  std::set<std::tuple<int, int, bool>> seen;
  for (index_t i = 0; i < 200; ++i)
    for (int down = -1; down <= 1; ++down)
      for (int right = -1; right <= 1; ++right)
        for (const bool flip : {false, true}) {
          bool same = true;
          for (index_t c = 0; c < 2; ++c)
            for (int y = 0; y < 4; ++y)
              for (int x = 0; x < 5; ++x) {
                const int from_x = flip ? x + right : x - right;  // mirrored first, then moved
                const index_t at = ((i * 2 + c) * 4 + static_cast<index_t>(y)) * 5 + static_cast<index_t>(x);
                same = same && made.values[at] == moved(images, i, c, y - down, from_x, flip);
              }
          if (same) seen.insert({down, right, flip});
        }
  CHECK(seen.size() == 18);
}

TEST_CASE("an image depends on the key and its number alone, and without options nothing changes") {
  const auto images = counted({7, 6, 6});
  const gradus::random_key key{.seed = 1, .step = 5};
  const auto made = gradus::shift_and_flip(images, {.shift = 2, .flip = true}, key);
  const auto fewer = gradus::shift_and_flip(counted({3, 6, 6}), {.shift = 2, .flip = true}, key);
  CHECK(std::vector<int>(made.values.begin(), made.values.begin() + 3 * 36) == fewer.values);
  CHECK(gradus::shift_and_flip(images, {.shift = 2, .flip = true}, {.seed = 1, .step = 6}).values != made.values);
  CHECK(gradus::shift_and_flip(images, {}, key).values == images.values);
}

TEST_CASE("what is no images is refused") {
  CHECK(message_of([] {
          gradus::shift_and_flip(counted({6, 6}), {}, {});
        }) == "shift_and_flip: images have 3 axes, [N, H, W], or 4, [N, C, H, W], not 2");
  CHECK(message_of([] {
          gradus::shift_and_flip(gradus::host_array<int>{{1, 2, 2}, {1}}, {}, {});
        }).starts_with("shift_and_flip: the images"));
}
