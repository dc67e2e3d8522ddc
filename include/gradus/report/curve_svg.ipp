#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>

#include "curve_svg.hpp"

namespace gradus {

namespace detail {

GRADUS_IMPL std::string svg_escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') out += "&lt;";
    else if (c == '>') out += "&gt;";
    else if (c == '&') out += "&amp;";
    else if (c == '"') out += "&quot;";
    else out += c;
  }
  return out;
}

GRADUS_IMPL std::string svg_number(double value, int decimals) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

// A range of values and the distance of its marks: 1, 2 or 5 times a power of ten, about `wanted` of them.
struct axis_scale {
  double low = 0;
  double high = 1;
  double step = 0.2;

  axis_scale(double least, double most, int wanted) {
    if (!(most > least)) most = least + (least != 0 ? std::abs(least) * 0.1 : 1.0);
    const double rough = (most - least) / wanted;
    const double power = std::pow(10.0, std::floor(std::log10(rough)));
    const double lead = rough / power;
    step = power * (lead <= 1 ? 1 : lead <= 2 ? 2 : lead <= 5 ? 5 : 10);
    low = std::floor(least / step) * step;
    high = std::ceil(most / step) * step;
  }
  double place(double value) const { return (value - low) / (high - low); }
  int marks() const { return static_cast<int>(std::lround((high - low) / step)); }
  std::string label(int i) const {
    const double value = low + i * step;
    if (std::abs(value) >= 1e6) return svg_number(value / 1e6, step < 1e6 ? 1 : 0) + "M";
    if (std::abs(value) >= 1e4) return svg_number(value / 1e3, step < 1e3 ? 1 : 0) + "k";
    const int decimals = step >= 1 ? 0 : static_cast<int>(std::ceil(-std::log10(step) - 1e-9));
    return svg_number(value, decimals);
  }
};

// The extreme finite points of all curves, as {least x, most x, least y, most y}.
GRADUS_IMPL std::vector<double> curve_bounds(std::span<const curve> curves) {
  std::vector<double> b{0, 1, 0, 1};
  bool first = true;
  for (const curve& c : curves)
    for (std::size_t i = 0; i < std::min(c.x.size(), c.y.size()); ++i) {
      if (!std::isfinite(c.x[i]) || !std::isfinite(c.y[i])) continue;
      if (first) b = {c.x[i], c.x[i], c.y[i], c.y[i]};
      first = false;
      b = {std::min(b[0], c.x[i]), std::max(b[1], c.x[i]), std::min(b[2], c.y[i]), std::max(b[3], c.y[i])};
    }
  return b;
}

}  // namespace detail

GRADUS_IMPL std::string curve_svg(const chart_labels& labels, std::span<const curve> curves) {
  using detail::svg_escape;
  using detail::svg_number;
  constexpr double width = 860, height = 480, left = 70, right = 20, top = 50, bottom = 60;
  constexpr double plot_width = width - left - right, plot_height = height - top - bottom;
  const std::vector<double> bounds = detail::curve_bounds(curves);
  const detail::axis_scale across(bounds[0], bounds[1], 8), up(bounds[2], bounds[3], 6);
  const auto at_x = [&](double x) { return left + plot_width * across.place(x); };
  const auto at_y = [&](double y) { return top + plot_height * (1 - up.place(y)); };

  std::string svg =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"860\" height=\"480\" viewBox=\"0 0 860 480\" "
      "font-family=\"sans-serif\" font-size=\"13\" fill=\"#333\">\n"
      "<rect width=\"860\" height=\"480\" fill=\"white\"/>\n";
  const auto text = [&](double x, double y, std::string_view anchor, std::string_view what,
                        std::string_view more = "") {
    svg += "<text x=\"" + svg_number(x) + "\" y=\"" + svg_number(y) + "\" text-anchor=\"" + std::string(anchor) + "\"" +
           std::string(more) + ">" + svg_escape(what) + "</text>\n";
  };
  const auto line = [&](double x1, double y1, double x2, double y2, std::string_view color, int thickness) {
    svg += "<line x1=\"" + svg_number(x1) + "\" y1=\"" + svg_number(y1) + "\" x2=\"" + svg_number(x2) + "\" y2=\"" +
           svg_number(y2) + "\" stroke=\"" + std::string(color) + "\" stroke-width=\"" + std::to_string(thickness) +
           "\"/>\n";
  };

  text(width / 2, 28, "middle", labels.title, " font-size=\"17\" font-weight=\"bold\"");
  for (int i = 0; i <= across.marks(); ++i) {
    const double x = at_x(across.low + i * across.step);
    line(x, top, x, top + plot_height, "#e4e4e4", 1);
    text(x, top + plot_height + 18, "middle", across.label(i));
  }
  for (int i = 0; i <= up.marks(); ++i) {
    const double y = at_y(up.low + i * up.step);
    line(left, y, left + plot_width, y, "#e4e4e4", 1);
    text(left - 8, y + 4, "end", up.label(i));
  }
  line(left, top + plot_height, left + plot_width, top + plot_height, "#333", 1);
  line(left, top, left, top + plot_height, "#333", 1);
  text(left + plot_width / 2, height - 16, "middle", labels.x);
  text(0, 0, "middle", labels.y, " transform=\"translate(20 " + svg_number(top + plot_height / 2) + ") rotate(-90)\"");

  double legend = top + 20;
  for (const curve& c : curves) {
    std::string points;
    double last = std::nan("");
    for (std::size_t i = 0; i < std::min(c.x.size(), c.y.size()); ++i) {
      if (!std::isfinite(c.x[i]) || !std::isfinite(c.y[i])) continue;
      points.append(svg_number(at_x(c.x[i]))).append(",").append(svg_number(at_y(c.y[i]))).append(" ");
      last = c.y[i];
    }
    const std::string color = svg_escape(c.color);
    svg.append("<polyline fill=\"none\" stroke=\"").append(color).append("\" stroke-width=\"2\" points=\"");
    svg.append(points).append("\"/>\n");
    const double x = left + plot_width - 190;
    line(x, legend - 4, x + 26, legend - 4, color, 3);
    text(x + 34, legend, "start", std::isfinite(last) ? c.name + " (" + svg_number(last, 3) + ")" : c.name);
    legend += 20;
  }
  return svg + "</svg>\n";
}

}  // namespace gradus
