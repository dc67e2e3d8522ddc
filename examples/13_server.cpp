// Lesson 13: extents that are known at run time, up to a bound. A model learns from batches of up to 64 rows, the last
// of them smaller, and then answers whatever many threads ask, 1 to 64 rows at a time.

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <future>
#include <gradus/gradus.hpp>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace gr = gradus;

constexpr gr::index_t most = 64, points = 1000;  // 15 whole batches, and one of 40
using rows_in = gr::shape<gr::upto<most>, 2>;    // 1 to 64 points of the plane
using answers = gr::shape<gr::upto<most>>;

struct rings {
  using X = gr::on<gr::cpu>;
  gr::nn::linear<X, 2, 64> first;
  gr::nn::linear<X, 64, 64> second;
  gr::nn::linear<X, 64, 2> last;
  GRADUS_MEMBERS(first, second, last)
  auto operator()(const auto& x) const { return last(gr::tanh(second(gr::tanh(first(x))))); }
};

using point = std::array<float, 2>;
point draw(std::uint64_t number) {
  const auto words = gr::random_key{.seed = number}.words(0);
  return {4 * gr::uniform_float(words[0]) - 2, 4 * gr::uniform_float(words[1]) - 2};
}
std::int32_t ring(const point& p) { return p[0] * p[0] + p[1] * p[1] < 2 ? 0 : 1; }

// Threads ask; one thread takes all points that wait, 64 at most, and computes them together.
class server {
 public:
  explicit server(const rings& model) : net_(&model), thread_([this] { serve(); }) {}
  ~server() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    asked_.notify_all();
    thread_.join();
    std::printf("served %zu points in %zu calls of the model\n", served_, calls_);
  }
  std::future<float> ask(const point& p) {
    const std::lock_guard lock(mutex_);
    waiting_.emplace_back(p, std::promise<float>());
    asked_.notify_one();
    return waiting_.back().second.get_future();
  }

 private:
  void serve() {
    gr::stream stream;
    gr::host_resource heap;
    gr::pool_resource pool(heap);
    gr::context ctx{stream, pool};
    for (;;) {
      std::vector<float> inputs;
      std::vector<std::promise<float>> promised;
      {
        std::unique_lock lock(mutex_);
        asked_.wait(lock, [&] { return closed_ || !waiting_.empty(); });
        if (waiting_.empty()) return;
        for (; !waiting_.empty() && promised.size() < most; waiting_.pop_front()) {
          const point& p = waiting_.front().first;
          inputs.insert(inputs.end(), p.begin(), p.end());
          promised.push_back(std::move(waiting_.front().second));
        }
      }
      const auto x = gr::from_values<float, rows_in>(ctx, inputs, promised.size());
      const auto p = gr::softmax((*net_)(x));
      for (gr::index_t i = 0; i < p.extent(0); ++i) promised[i].set_value(p(i, 1));
      served_ += promised.size();
      ++calls_;
    }
  }

  const rings* net_;
  std::mutex mutex_;
  std::condition_variable asked_;
  std::deque<std::pair<point, std::promise<float>>> waiting_;
  bool closed_ = false;
  std::size_t served_ = 0, calls_ = 0;
  std::thread thread_;  // last: it uses the others
};

int main() {
  gr::stream stream;
  gr::host_resource heap;
  gr::pool_resource pool(heap);
  gr::context ctx{stream, pool};
  rings net;
  gr::init(net, ctx, gr::xavier_normal{.seed = 1});
  gr::adamw optimizer{net, {.lr = 1e-2, .weight_decay = 0}};
  gr::tape tape{ctx};
  for (int epoch = 0; epoch < 20; ++epoch) {
    for (gr::index_t first = 0; first < points; first += most) {
      std::vector<float> inputs;
      std::vector<std::int32_t> rings_of;
      for (gr::index_t i = first; i < std::min(points, first + most); ++i) {
        const point p = draw(i);
        inputs.insert(inputs.end(), p.begin(), p.end());
        rings_of.push_back(ring(p));
      }
      const gr::index_t rows = rings_of.size();  // 64, and 40 in the last batch
      const auto x = gr::from_values<float, rows_in>(ctx, inputs, rows);
      const auto loss =
          gr::cross_entropy(net(tape.watch(x)), gr::from_values<std::int32_t, answers>(ctx, rings_of, rows));
      gr::backward(loss);
      optimizer.step(ctx);
      if (epoch % 5 == 4 && first + most >= points)
        std::printf("epoch %2d, batch of %zu: loss %.3f\n", epoch + 1, rows,
                    static_cast<double>(gr::item(loss.value())));
    }
  }

  std::array<int, 4> right{}, same{};
  {
    server serving(net);
    std::vector<std::thread> clients;
    for (int client = 0; client < 4; ++client)
      clients.emplace_back([&, client] {
        gr::stream alone;
        gr::context here{alone, heap};
        for (std::uint64_t i = 0; i < 100; ++i) {
          const point p = draw(points + 100 * static_cast<std::uint64_t>(client) + i);
          const float outer = serving.ask(p).get();
          const auto one = gr::softmax(net(gr::from_values<float, gr::shape<1, 2>>(here, p)));
          right[client] += (outer > 0.5f) == (ring(p) == 1);
          same[client] += outer == one(0, 1);
        }
      });
    for (std::thread& c : clients) c.join();
  }
  std::printf("%d of 400 points are in the ring that the model says; %d answers have the bits of a call alone\n",
              right[0] + right[1] + right[2] + right[3], same[0] + same[1] + same[2] + same[3]);
}
