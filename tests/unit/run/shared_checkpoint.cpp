// The checkpoint of ranks that share a run is the file of one rank, and any number of ranks resumes from it.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include <gradus/gradus.hpp>
#include <gradus/ranks/thread_communicator.hpp>
#include <gradus/run/shared_checkpoint.hpp>

#include "../../support/full_disk.hpp"
#include "../../support/message_of.hpp"
#include "../../support/operands.hpp"
#include "../../support/scratch_folder.hpp"
#include "../../support/seed.hpp"

namespace gr = gradus;
using gradus_test::message_of;
using gradus_test::scratch_folder;
using gradus_test::workplace;

namespace {

using X = gr::on<gr::cpu, gr::bf16_pure>;
using T = X::store;
using pieces_type = gr::param_pieces<T, gr::cpu, X::gradient>;

struct model {
  gr::param<X, 70, 131> table;
  gr::state<gr::on<gr::cpu>, 7> mean;
  gr::param<X, 96, 64> matrix;
  gr::param<X, 5> bias;
  gr::param<X, 8197> vector;
  GRADUS_MEMBERS(table, mean, matrix, bias, vector)
};
constexpr gr::index_t sizes[] = {70 * 131, 96 * 64, 5, 8197};
constexpr gr::index_t parameters = 4;

std::vector<std::vector<gr::piece_range>> random_cut(gr::index_t ranks, bool divisible, std::mt19937& random) {
  std::vector<std::vector<gr::piece_range>> all(ranks);
  for (gr::index_t number = 0; number < parameters; ++number)
    for (gr::index_t begin = 0; begin < sizes[number];) {
      const gr::index_t size = std::min(divisible ? gr::piece_unit : sizes[number], sizes[number] - begin);
      all[random() % ranks].push_back({number, begin, size});
      begin += size;
    }
  return all;
}
std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// One rank's model. `of_its_own`: the values of its pieces are not in the model.
struct world {
  workplace at;
  model net;
  std::vector<std::vector<T>> values;

  world() {
    gr::init(net, at.ctx, gr::normal_init{.seed = 3, .stddev = 1});
    for (float& x : net.mean.edit().values()) x = 0.5f;
  }
  void give_values_of_their_own(pieces_type& pieces) {
    for (auto& p : pieces.all()) {
      values.emplace_back(p.edit_data(), p.edit_data() + p.size());
      p.set_value_storage(values.back().data());
    }
  }
  template <class Optimizer>
  void step(Optimizer& optimizer, unsigned round) {
    std::uint32_t number = 0;
    gr::visit_params(net, [&](auto& p) {
      using P = std::remove_reference_t<decltype(p)>;
      const gr::random_key key{.seed = 8, .step = round, .ordinal = number++};
      if (round == 1 && number == 2) return;  // so that the parameters differ in their steps
      auto g = gr::empty<X::gradient, typename P::shape>(at.ctx);
      for (gr::index_t i = 0; i < g.size; ++i) g.data()[i] = T(gr::uniform_float(key.words(i)[0]) - 0.4f);
      p.slot().give(std::move(g));
    });
    optimizer.step(at.ctx);
  }
};

template <class Make>
void check(const Make& make, bool divisible) {
  std::mt19937 random(gradus_test::fresh_seed());
  const scratch_folder here;
  gr::run_metadata metadata;
  metadata.set("step", 2);
  // What one rank writes after two steps, and after four.
  {
    world w;
    auto optimizer = make(w.net);
    for (unsigned round = 0; round < 4; ++round) {
      w.step(optimizer, round);
      if (round % 2 == 1)
        gr::write_checkpoint(here.path / ("one" + std::to_string(round)), w.at.ctx, w.net, optimizer, metadata);
    }
  }
  const std::string after_two = bytes_of(here.path / "one1"), after_four = bytes_of(here.path / "one3");
  REQUIRE(after_two != after_four);
  for (const gr::index_t ranks : {1u, 2u, 4u, 8u})
    for (const bool own : {false, true}) {
      CAPTURE(ranks);
      CAPTURE(own);
      const auto cut = random_cut(ranks, divisible, random);
      const auto shared = here.path / "shared";
      gr::run_ranks(ranks, [&](gr::communicator<gr::cpu>& all) {
        world w;
        pieces_type pieces(w.net, cut[all.rank()]);
        if (own) w.give_values_of_their_own(pieces);
        auto optimizer = make(pieces);
        for (unsigned round = 0; round < 2; ++round) w.step(optimizer, round);
        gr::write_checkpoint(shared, w.at.ctx, w.net, optimizer, metadata, {}, pieces, all);
      });
      CHECK((bytes_of(shared) == after_two));
      // These ranks resume from the file of one, and then write theirs.
      gr::run_ranks(ranks, [&](gr::communicator<gr::cpu>& all) {
        world w;
        pieces_type pieces(w.net, cut[all.rank()]);
        if (own) w.give_values_of_their_own(pieces);
        auto optimizer = make(pieces);
        w.step(optimizer, 7);  // whatever was there before is gone
        w.net.mean.edit().values()[0] = 9;
        const gr::run_metadata read = gr::read_checkpoint(here.path / "one1", w.at.ctx, w.net, optimizer, pieces, all);
        CHECK(read.number<int>("step") == 2);
        CHECK(w.net.mean.value().values()[0] == 0.5f);
        for (unsigned round = 2; round < 4; ++round) w.step(optimizer, round);
        gr::write_checkpoint(shared, w.at.ctx, w.net, optimizer, read, {}, pieces, all);
      });
      CHECK((bytes_of(shared) == after_four));
    }
}

struct long_model {
  gr::param<X, 100> first;
  gr::param<X, 5'000'011> longer;
  GRADUS_MEMBERS(first, longer)
};

// Writes or reads on three ranks, and returns what each of them throws.
template <class F>
std::vector<std::string> messages_of_three(const F& f) {
  std::vector<std::string> messages(3);
  gr::run_ranks(3, [&](gr::communicator<gr::cpu>& all) {
    world w;
    std::vector<gr::piece_range> mine;
    if (all.rank() == 0) mine = {{1, 0, sizes[1]}};
    if (all.rank() == 1) mine = {{0, 0, sizes[0]}, {3, 0, 4096}};
    if (all.rank() == 2) mine = {{2, 0, sizes[2]}, {3, 4096, 4101}};
    pieces_type pieces(w.net, mine);
    gr::adamw optimizer(pieces);
    w.step(optimizer, 0);
    messages[all.rank()] = message_of([&] { f(w, optimizer, pieces, all); });
  });
  return messages;
}

}  // namespace

TEST_CASE("ranks write the bytes of one rank's checkpoint, and resume from it, whatever their number and optimizer") {
  SUBCASE("adamw") {
    check([](auto& m) { return gr::adamw{m, {.lr = 0.1}}; }, true);
  }
  SUBCASE("any_precision_adamw") {
    check([](auto& m) { return gr::any_precision_adamw{m, {.lr = 0.1}}; }, true);
  }
  SUBCASE("adamw_8bit") {
    check([](auto& m) { return gr::adamw_8bit{m, {.lr = 0.1}}; }, true);
  }
  SUBCASE("adafactor") {
    check([](auto& m) { return gr::adafactor{m, {.beta1 = 0.9}}; }, false);
  }
  SUBCASE("muon") {
    check([](auto& m) { return gr::muon{m, {.lr = 0.1}}; }, false);
  }
  SUBCASE("sgd without states") {
    check([](auto& m) { return gr::sgd{m, {.lr = 0.1}}; }, true);
  }
}

TEST_CASE("a checkpoint that rank 0 cannot write is an error of all ranks, and they can write another") {
  const scratch_folder here;
  const auto path = here.path / "missing" / "run", good = here.path / "run";
  const auto messages = messages_of_three([&](auto& w, auto& optimizer, auto& pieces, auto& all) {
    const std::string problem =
        message_of([&] { gr::write_checkpoint(path, w.at.ctx, w.net, optimizer, {}, {}, pieces, all); });
    gr::write_checkpoint(good, w.at.ctx, w.net, optimizer, {}, {}, pieces, all);
    throw gr::error(problem);
  });
  CHECK(messages[0].find("run: cannot be written: No such file or directory") != std::string::npos);
  CHECK(messages[1] == messages[0]);
  CHECK(messages[2] == messages[0]);
  CHECK(std::filesystem::exists(good));
}

TEST_CASE("a disk that fills up while rank 0 writes is an error of all ranks" *
          doctest::skip(gradus_test::on_windows)) {
  const scratch_folder here;
  const gradus_test::full_disk disk;
  const auto messages = messages_of_three([&](auto& w, auto& optimizer, auto& pieces, auto& all) {
    gr::write_checkpoint(here.path / "run", w.at.ctx, w.net, optimizer, {}, {}, pieces, all);
  });
  CHECK(messages[0].find("File too large") != std::string::npos);
  CHECK(messages == std::vector<std::string>(3, messages[0]));
}

TEST_CASE("a damaged checkpoint, another model's and one that a rank cannot see are errors of all ranks") {
  const scratch_folder here;
  const auto path = here.path / "run";
  messages_of_three([&](auto& w, auto& optimizer, auto& pieces, auto& all) {
    gr::write_checkpoint(path, w.at.ctx, w.net, optimizer, {}, {}, pieces, all);
  });
  const auto read = [&](const std::filesystem::path& of_last) {
    const auto messages = messages_of_three([&](auto& w, auto& optimizer, auto& pieces, auto& all) {
      const T before = w.net.vector.value().values()[0];
      try {
        gr::read_checkpoint(all.rank() == 2 ? of_last : path, w.at.ctx, w.net, optimizer, pieces, all);
      } catch (const gr::error&) {
        CHECK((w.net.vector.value().values()[0] == before));  // nothing has changed
        throw;
      }
    });
    CHECK(messages == std::vector<std::string>(3, messages[0]));
    return messages[0];
  };
  CHECK(read(path) == "nothing was thrown");
  CHECK(read(here.path / "elsewhere").find("elsewhere: no such file") != std::string::npos);
  const std::string whole = bytes_of(path);
  std::string damaged = whole;
  damaged[damaged.size() - 100] ^= 1;
  std::ofstream(path, std::ios::binary) << damaged;
  CHECK(read(path).find("is damaged: its checksum is") != std::string::npos);
  std::string other = whole;
  other.replace(other.find("\"bias\""), 6, "\"bios\"");
  std::ofstream(path, std::ios::binary) << other;
  CHECK(read(path).find("has no tensor 'bias'") != std::string::npos);
}

TEST_CASE("pieces larger than what is staged at a time come whole to the file and back") {
  const scratch_folder here;
  const auto one = here.path / "one", two = here.path / "two";
  {
    workplace at;
    long_model net;
    gr::init(net, at.ctx, gr::normal_init{.seed = 5, .stddev = 1});
    gr::sgd optimizer{net};
    gr::write_checkpoint(one, at.ctx, net, optimizer, {});
  }
  gr::run_ranks(2, [&](gr::communicator<gr::cpu>& all) {
    workplace at;
    long_model net;
    gr::init(net, at.ctx, gr::normal_init{.seed = all.rank(), .stddev = 1});
    const gr::index_t half = 2'400'256;
    using ranges = std::vector<gr::piece_range>;
    pieces_type pieces(net, all.rank() == 0 ? ranges{{0, 0, 100}, {1, 0, half}} : ranges{{1, half, 5'000'011 - half}});
    gr::sgd optimizer{pieces};
    gr::read_checkpoint(one, at.ctx, net, optimizer, pieces, all);
    gr::write_checkpoint(two, at.ctx, net, optimizer, {}, {}, pieces, all);
  });
  CHECK((bytes_of(one) == bytes_of(two)));
}

TEST_CASE("pieces that are not the whole model are no checkpoint") {
  const scratch_folder here;
  const auto write = [&](const std::vector<std::vector<gr::piece_range>>& cut) {
    std::vector<std::string> messages(cut.size());
    gr::run_ranks(cut.size(), [&](gr::communicator<gr::cpu>& all) {
      world w;
      pieces_type pieces(w.net, cut[all.rank()]);
      gr::sgd optimizer(pieces);
      messages[all.rank()] =
          message_of([&] { gr::write_checkpoint(here.path / "run", w.at.ctx, w.net, optimizer, {}, {}, pieces, all); });
    });
    CHECK(messages == std::vector<std::string>(cut.size(), messages[0]));
    return messages[0];
  };
  CHECK(write({{{0, 0, sizes[0]}, {2, 0, 5}}, {{1, 0, 4096}, {3, 0, sizes[3]}}}) ==
        "checkpoint: 'matrix': no rank has element 4096; the pieces of all ranks must be the whole model");
  CHECK(write({{{0, 0, sizes[0]}}, {{0, 4096, 4096}}}) ==
        "checkpoint: 'table': several ranks have element 4096; the pieces of all ranks must be the whole model");
}
