#pragma once
#include <algorithm>
#include <string_view>

#include "describe.hpp"

namespace gradus {

GRADUS_IMPL std::string describe(const collective& what) {
  constexpr std::string_view kinds[] = {"barrier",        "broadcast",  "all_reduce",
                                        "reduce_scatter", "all_gather", "all_to_all"};
  constexpr std::string_view types[] = {"f64", "f32", "bf16", "f16", "i64", "i32", "u16", "u8"};
  constexpr std::string_view reductions[] = {"sum", "minimum", "maximum"};
  std::string text(kinds[static_cast<unsigned>(what.kind)]);
  if (what.kind == collective_kind::barrier) return text;
  text += " of " + std::to_string(what.count) + ' ';
  text += types[static_cast<unsigned>(what.type)];
  if (what.tag != 0) text += " number " + std::to_string(what.tag);
  if (what.kind == collective_kind::broadcast) text += " from rank " + std::to_string(what.root);
  if (what.kind == collective_kind::all_reduce || what.kind == collective_kind::reduce_scatter) {
    text += " (";
    text += reductions[static_cast<unsigned>(what.options.by)];
    text += what.options.order == sum_order::tree ? ", tree)" : ", fastest)";
  }
  if (!what.counts.empty()) {
    text += what.kind == collective_kind::all_to_all ? ", sent" : ", by rank";
    for (const index_t n : what.counts) text += ' ' + std::to_string(n);
  }
  if (!what.received.empty()) {
    text += ", received";
    for (const index_t n : what.received) text += ' ' + std::to_string(n);
  }
  return text;
}

GRADUS_IMPL bool same_call(const collective& a, const collective& b) {
  if (a.kind != b.kind || a.type != b.type || a.root != b.root || a.tag != b.tag || a.options.by != b.options.by ||
      a.options.order != b.options.order)
    return false;
  return a.kind == collective_kind::all_to_all || (a.count == b.count && a.counts == b.counts);
}

GRADUS_IMPL std::string disagreement(std::span<const collective> calls) {
  bool agree = true;
  for (const collective& c : calls) agree = agree && same_call(c, calls[0]);
  if (agree && calls[0].kind == collective_kind::all_to_all)
    for (std::size_t i = 0; i < calls.size(); ++i)
      for (std::size_t k = 0; k < calls.size(); ++k) agree = agree && calls[i].counts[k] == calls[k].received[i];
  if (agree) return {};
  std::string text = "communicator: the ranks have called different collectives: ";
  for (std::size_t i = 0; i < calls.size();) {  // equal calls of successive ranks together
    const std::string call = describe(calls[i]);
    std::size_t end = i + 1;
    while (end < calls.size() && describe(calls[end]) == call) ++end;
    text += i == 0 ? "" : "; ";
    text +=
        end == i + 1 ? "rank " + std::to_string(i) : "ranks " + std::to_string(i) + " to " + std::to_string(end - 1);
    text += ": " + call;
    i = end;
  }
  return text;
}

}  // namespace gradus
