#pragma once
#include <algorithm>
#include <array>
#include <initializer_list>
#include <string>
#include <utility>

#include "../core/byte_size.hpp"
#include "../io/atomic_file.hpp"
#include "curve_svg.hpp"
#include "memory_page.hpp"
#include "memory_page_script.hpp"
#include "memory_report.hpp"
#include "run_log.hpp"

namespace gradus {

namespace detail {

// Colours that stay apart for colour-blind readers (Okabe and Ito), by category.
inline constexpr std::array<const char*, category_count> category_colors{"#0072b2", "#e69f00", "#56b4e9", "#009e73",
                                                                         "#cc79a7", "#f0e442", "#d55e00"};
// From the bottom of the picture up: what stays is below what comes and goes.
inline constexpr std::array<category, category_count> stacking{
    category::parameter, category::state,      category::optimizer_state, category::gradient,
    category::input,     category::activation, category::temporary};

// `text` within a script element: no "<" in it, hence neither its end nor a comment.
GRADUS_IMPL std::string script_string(std::string_view text) {
  std::string out;
  for (const char c : json_string(text)) {
    if (c == '<') out += "\\u003c";
    else out += c;
  }
  return out;
}

// A JSON array, of what `one(i)` gives for i < n.
template <class One>
std::string json_list(std::size_t n, const One& one) {
  std::string out = "[";
  for (std::size_t i = 0; i < n; ++i) {
    if (i > 0) out += ',';
    out += one(i);
  }
  return out + ']';
}

// Collects names, so that the page's data can number them.
class name_table {
 public:
  std::string number(std::string_view name) {
    if (name.empty()) return "-1";
    const auto at = std::find(names_.begin(), names_.end(), name);
    const auto number = at - names_.begin();
    if (at == names_.end()) names_.push_back(name);
    return std::to_string(number);
  }
  std::string json() const {
    return json_list(names_.size(), [&](std::size_t i) { return script_string(names_[i]); });
  }

 private:
  std::vector<std::string_view> names_;
};

GRADUS_IMPL std::string trace_data(std::string_view label, const step_trace& t, const std::vector<std::size_t>& offsets,
                                   name_table& names) {
  const trace_times times(t);
  const auto plain = [](auto n) { return std::to_string(static_cast<std::size_t>(n)); };
  std::string out = "{\"label\":" + json_string(label) + ",\"unit\":\"" + (times.measured ? "measured" : "") +
                    "\",\"end\":" + svg_number(times.end, 2);
  out += ",\"before\":" + json_list(category_count, [&](std::size_t c) { return plain(t.live_before_by[c]); });
  out += ",\"times\":" + json_list(times.event.size(), [&](std::size_t e) { return svg_number(times.event[e], 2); });
  out += ",\n\"blocks\":" + json_list(t.blocks.size(), [&](std::size_t i) {
           const block_life& b = t.blocks[i];
           return "[" + plain(b.bytes) + "," + plain(b.what) + "," + names.number(b.source) + "," + plain(b.phase) +
                  "," + plain(b.from) + "," + plain(b.until) + "," + names.number(b.saved_by) + "]";
         });
  out += ",\n\"ops\":" + json_list(t.ops.size(), [&](std::size_t i) {
           const op_span& op = t.ops[i];
           return "[" + names.number(op.what.name) + "," + plain(op.what.phase) + "," + plain(op.first_event) + "," +
                  plain(op.last_event) + "," + svg_number(times.op_begin[i], 2) + "," + svg_number(times.op_end[i], 2) +
                  "]";
         });
  if (!offsets.empty())
    out += ",\n\"offsets\":" + json_list(offsets.size(), [&](std::size_t i) { return plain(offsets[i]); });
  return out + "}";
}

GRADUS_IMPL std::string page_data(const step_trace& planned, const step_trace* measured,
                                  const std::vector<std::size_t>& offsets) {
  name_table names;
  std::string out = "{\"traces\":[" + trace_data("planned", planned, offsets, names);
  if (measured != nullptr) out += ",\n" + trace_data("measured", *measured, {}, names);
  out += "],\n\"categories\":" + json_list(category_count, [](std::size_t c) {
           return std::string("[")
               .append(json_string(category_name(static_cast<category>(c))))
               .append(",")
               .append(json_string(category_colors[c]))
               .append("]");
         });
  out += ",\n\"stack\":" +
         json_list(category_count, [](std::size_t c) { return std::to_string(static_cast<std::size_t>(stacking[c])); });
  out += ",\n\"phases\":" +
         json_list(phase_count, [](std::size_t p) { return json_string(phase_name(static_cast<phase>(p))); });
  return out + ",\n\"names\":" + names.json() + "}";
}

// Microseconds of each operation of `plan` in `trace`, without operations within it.
GRADUS_IMPL std::vector<double> own_times(const step_summary& plan, const step_trace& trace) {
  std::vector<double> own(plan.op_count, 0);
  const auto add = [&](const op_span& op, double us) {
    for (std::size_t i = 0; i < plan.op_count; ++i)
      if (plan.ops[i].name == op.what.name) own[i] += us;
  };
  std::vector<const op_span*> open;
  for (const op_span& op : trace.ops) {
    while (!open.empty() && open.back()->end_us <= op.begin_us) open.pop_back();
    const double us = op.end_us - op.begin_us;
    add(op, us);
    if (!open.empty()) add(*open.back(), -us);
    open.push_back(&op);
  }
  return own;
}

// `text` with what is given for each {{name}} in it, once through.
GRADUS_IMPL std::string filled(std::string_view text,
                               std::initializer_list<std::pair<std::string_view, std::string_view>> values) {
  std::string out;
  while (true) {
    const std::size_t open = text.find("{{");
    out += text.substr(0, open);
    if (open == std::string_view::npos) return out;
    const std::size_t close = text.find("}}", open);
    for (const auto& [name, value] : values)
      if (text.substr(open + 2, close - open - 2) == name) out += value;
    text.remove_prefix(close + 2);
  }
}

GRADUS_IMPL std::string html_row(const char* cell, const std::vector<std::string>& cells) {
  std::string out = "<tr>";
  for (const std::string& text : cells)
    out.append("<").append(cell).append(">").append(text).append("</").append(cell).append(">");
  return out + "</tr>\n";
}

// What the peaks are made of.
GRADUS_IMPL std::string peak_html(const step_summary& planned, const step_summary* measured) {
  const std::vector<const step_summary*> plans =
      measured != nullptr ? std::vector{&planned, measured} : std::vector{&planned};
  std::vector<std::string> head{"", "planned", "share"};
  if (measured != nullptr) head.insert(head.end(), {"measured", "share"});
  std::string out = "<div class=\"wide\"><table><thead>" + html_row("th", head) + "</thead><tbody>\n";
  const auto row = [&](const std::string& name, const auto& bytes_of) {
    std::vector<std::string> cells{name};
    for (const step_summary* p : plans)
      cells.insert(cells.end(), {format_bytes(bytes_of(*p)), share_text(bytes_of(*p), p->peak_bytes)});
    out += html_row("td", cells);
  };
  for (const category c : stacking)
    row("<span class=\"swatch\" style=\"background:" + std::string(category_colors[static_cast<std::size_t>(c)]) +
            "\"></span>" + std::string(category_name(c)),
        [&](const step_summary& p) { return p.at_peak_of(c); });
  out += "</tbody><tfoot>";
  row("peak", [](const step_summary& p) { return p.peak_bytes; });
  row("persistent", [](const step_summary& p) { return p.persistent_bytes; });
  out += "</tfoot></table></div>\n";
  if (measured != nullptr) {
    const bool more = measured->peak_bytes > planned.peak_bytes;
    const std::size_t apart =
        more ? measured->peak_bytes - planned.peak_bytes : planned.peak_bytes - measured->peak_bytes;
    out += "<p>The measured peak is " +
           (apart == 0 ? "the planned one, to the byte"
                       : format_bytes(apart) + (more ? " above" : " below") + " the planned one") +
           ".</p>\n";
  }
  return out;
}

GRADUS_IMPL std::string operations_html(const step_summary& planned, const step_trace* measured) {
  const std::vector<double> own = measured != nullptr ? own_times(planned, *measured) : std::vector<double>{};
  const auto ms = [](double us) { return svg_number(us / 1000, 3) + " ms"; };
  std::vector<std::string> head(table_head.begin(), table_head.end());
  if (measured != nullptr) head.push_back("measured");
  std::string out = "<div class=\"wide\"><table><thead>" + html_row("th", head) + "</thead><tbody>\n";
  double all = 0;
  for (std::size_t i = 0; i < planned.op_count; ++i) {
    const auto row = table_row(svg_escape(planned.ops[i].name), planned.ops[i].phases, planned.ops[i].saved_bytes);
    std::vector<std::string> cells(row.begin(), row.end());
    if (measured != nullptr) cells.push_back(ms(own[i]));
    if (measured != nullptr) all += own[i];
    out += html_row("td", cells);
  }
  const auto total = table_row("all", planned.phases, planned.saved_bytes);
  std::vector<std::string> cells(total.begin(), total.end());
  if (measured != nullptr) cells.push_back(ms(all));
  return out + "</tbody><tfoot>" + html_row("td", cells) + "</tfoot></table></div>\n";
}

}  // namespace detail

GRADUS_IMPL void write_memory_page(const std::filesystem::path& path, std::string_view title, const step_trace& planned,
                                   const step_trace* measured, const std::vector<std::size_t>& offsets) {
  if (!offsets.empty() && offsets.size() != planned.blocks.size())
    throw error(path.string() + ": " + std::to_string(offsets.size()) + " offsets for " +
                std::to_string(planned.blocks.size()) + " blocks; there must be one for each block of the plan");
  const step_summary plan = summarize(planned);
  const step_summary real = measured != nullptr ? summarize(*measured) : step_summary{};
  const std::string name = detail::svg_escape(title);
  const std::string summary =
      "Peak " + format_bytes(plan.peak_bytes) + ": " + detail::svg_escape(detail::peak_text(plan)) + ".";
  write_file_atomically(path, detail::filled(detail::memory_page_text,
                                             {{"title", name},
                                              {"style", detail::memory_page_style},
                                              {"summary", summary},
                                              {"peak", detail::peak_html(plan, measured != nullptr ? &real : nullptr)},
                                              {"operations", detail::operations_html(plan, measured)},
                                              {"data", detail::page_data(planned, measured, offsets)},
                                              {"script", detail::memory_page_script}}));
}

}  // namespace gradus
