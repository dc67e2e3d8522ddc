#pragma once
// A line chart as an SVG file.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "../core/config.hpp"

namespace gradus {

/// A named line of a chart.
struct curve {
  std::string name;
  std::string color;  ///< any SVG colour
  std::vector<double> x;
  std::vector<double> y;  ///< as long as x; points that are not finite are omitted
};

/// Title and axis labels.
struct chart_labels {
  std::string title;
  std::string x;
  std::string y;
};

namespace detail {

std::string svg_escape(std::string_view text);
std::string svg_number(double value, int decimals = 1);

}  // namespace detail

/// A line chart as one self-contained SVG file: axes with marks and labels, a grid, a legend with each curve's last
/// value.
std::string curve_svg(const chart_labels& labels, std::span<const curve> curves);

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "curve_svg.ipp"
#endif
