#pragma once
#include <sstream>

#include "shared_checkpoint.hpp"

namespace gradus::detail {

// A line for each, with the state last, which may be empty.
GRADUS_IMPL std::string text_of(const std::vector<piece_contents>& mine) {
  std::ostringstream text;
  for (const piece_contents& p : mine)
    text << p.number << ' ' << p.dtype << ' ' << p.whole << ' ' << p.begin << ' ' << p.count << ' ' << p.state << '\n';
  return text.str();
}

GRADUS_IMPL std::vector<piece_contents> pieces_in(const std::string& description) {
  std::vector<piece_contents> all;
  std::istringstream text(description);
  for (piece_contents p{}; text >> p.number >> p.dtype >> p.whole >> p.begin >> p.count; all.push_back(p)) {
    text.get();
    std::getline(text, p.state);
    p.data = nullptr;
  }
  return all;
}

// A tensor of a parameter, and its ranges in elements.
struct joined_tensor {
  std::string state, dtype;
  std::size_t whole;
  std::vector<rank_range> ranges;
};

// Sorts ranges of elements, and makes them ranges of bytes of a tensor.
GRADUS_IMPL void add_ranges(shared_tensors& to, std::vector<rank_range> ranges) {
  const checkpointed& t = to.tensors.back();
  std::ranges::sort(ranges, {}, &rank_range::begin);
  std::size_t at = 0;
  const auto fail = [&](const std::string& what) {
    throw error("checkpoint: '" + t.name + "': " + what + "; the pieces of all ranks must be the whole model");
  };
  const std::size_t element = t.bytes / t.count;
  for (rank_range r : ranges) {
    if (r.begin < at) fail("several ranks have element " + std::to_string(r.begin));
    if (r.begin > at) break;
    at += r.bytes;
    r.tensor = to.tensors.size() - 1;
    r.begin *= element, r.bytes *= element;
    to.ranges.push_back(r);
  }
  if (at != t.count) fail("no rank has element " + std::to_string(at));
}

GRADUS_IMPL shared_tensors join_pieces(std::vector<checkpointed> model, const std::vector<std::size_t>& parameters,
                                       index_t rank, const std::vector<piece_contents>& mine,
                                       const std::vector<std::string>& descriptions) {
  std::vector<std::vector<joined_tensor>> joined(parameters.size());
  for (index_t r = 0; r < descriptions.size(); ++r)
    for (const piece_contents& p : r == rank ? mine : pieces_in(descriptions[r])) {
      std::vector<joined_tensor>& of = joined.at(p.number);
      auto at = std::ranges::find(of, p.state, &joined_tensor::state);
      if (at == of.end()) at = of.insert(at, {p.state, p.dtype, p.whole, {}});
      at->ranges.push_back({0, r, p.begin, p.count, p.data});
    }
  shared_tensors all;
  std::size_t number = 0;
  for (std::size_t i = 0; i < model.size(); ++i) {
    const bool is_parameter = number < parameters.size() && parameters[number] == i;
    all.tensors.push_back(std::move(model[i]));
    const checkpointed& t = all.tensors.back();
    if (!is_parameter) add_ranges(all, {{0, 0, 0, t.count, static_cast<std::byte*>(t.data)}});
    else add_ranges(all, joined[number].empty() ? std::vector<rank_range>() : joined[number].front().ranges);
    number += is_parameter;
  }
  for (number = 0; number < parameters.size(); ++number)
    for (std::size_t k = 1; k < joined[number].size(); ++k) {
      const joined_tensor& j = joined[number][k];
      add_state(all.tensors, j.state, all.tensors[parameters[number]].name, j.dtype, j.whole, nullptr);
      add_ranges(all, j.ranges);
    }
  return all;
}

}  // namespace gradus::detail
