#pragma once
// The template of the page that write_memory_page writes; it replaces {{name}}.

#include <string_view>

namespace gradus::detail {

inline constexpr std::string_view memory_page_text = R"html(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
  content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>{{title}}</title>
<style>{{style}}</style>
</head>
<body>
<main>
<h1>{{title}}</h1>
<p class="soft">Memory of one training step. {{summary}}</p>
<div class="controls">
<span id="which"></span>
<button id="time">by time</button>
<button id="sequence">by event</button>
<button id="closer">zoom in</button>
<button id="whole">whole step</button>
</div>
<noscript><p>The pictures need JavaScript; the tables below do not.</p></noscript>
<figure><svg id="chart" tabindex="0" role="img" aria-label="Live bytes by category over the step"></svg></figure>
<p class="where" id="where" aria-live="polite"></p>
<ul class="legend" id="legend"></ul>
<p class="phases soft" id="phases"><span>Below the picture:</span></p>
<p class="soft hint">Point, or use the arrow keys, to read off; drag to zoom; double click for the whole step.</p>
<section id="places" hidden>
<h2>Where each block lies</h2>
<figure><svg id="lives" tabindex="0" role="img" aria-label="Blocks by address over the step"></svg></figure>
</section>
<h2>What the peak is made of</h2>
{{peak}}
<h2>Operations</h2>
{{operations}}
</main>
<script type="application/json" id="data">{{data}}</script>
<script>{{script}}</script>
</body>
</html>
)html";

inline constexpr std::string_view memory_page_style = R"css(
:root { --paper: #fff; --ink: #1b1f24; --soft: #5b6570; --grid: #dde2e7; --raised: #f4f6f8; color-scheme: light dark; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #14171a; --ink: #e8ebee; --soft: #a3adb7; --grid: #30363d; --raised: #1d2125; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 15px/1.45 system-ui, sans-serif; }
main { max-width: 1180px; margin: 0 auto; padding: 16px; }
h1 { font-size: 1.4em; margin: 0 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 1.1em; margin: 28px 0 8px; }
p { margin: 4px 0; }
.soft { color: var(--soft); }
.controls, .controls span { display: flex; flex-wrap: wrap; gap: 6px; }
.controls { margin: 12px 0 8px; }
button { font: inherit; color: var(--ink); background: var(--raised); border: 1px solid var(--grid); border-radius: 6px;
  padding: 4px 12px; cursor: pointer; }
button[aria-pressed=true] { background: var(--ink); color: var(--paper); border-color: var(--ink); }
svg { display: block; width: 100%; height: auto; font: 12px system-ui, sans-serif; touch-action: pan-y;
  cursor: crosshair; }
svg text { fill: var(--ink); font-variant-numeric: tabular-nums; }
.grid { stroke: var(--grid); }
.area { stroke: var(--paper); stroke-width: 0.3; }
.mark { stroke: var(--ink); stroke-dasharray: 3 3; }
.cursor { stroke: var(--ink); }
.range { fill: var(--ink); opacity: 0.15; }
.phase { fill: var(--ink); }
.note { font-weight: 600; paint-order: stroke; stroke: var(--paper); stroke-width: 4px; }
.where { min-height: 2.9em; font-variant-numeric: tabular-nums; }
.legend { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 300px), 1fr)); gap: 2px 20px;
  padding: 0; margin: 6px 0; list-style: none; }
.legend li { display: flex; gap: 8px; align-items: center; white-space: nowrap; }
.legend .value { margin-left: auto; font-variant-numeric: tabular-nums; white-space: pre; }
.swatch { display: inline-block; width: 14px; height: 14px; flex: none; border: 1px solid var(--soft);
  print-color-adjust: exact; -webkit-print-color-adjust: exact; }
.phases { display: flex; flex-wrap: wrap; gap: 2px 16px; }
.phases span { display: inline-flex; gap: 6px; align-items: center; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 3px 12px 3px 0; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--grid); }
th { color: var(--soft); font-weight: 500; }
th:first-child, td:first-child { text-align: left; }
tfoot td { font-weight: 600; }
.shade { display: block; width: 100%; height: 100%; background: var(--ink); }
td .swatch { vertical-align: -2px; margin-right: 8px; }
@media print {
  :root { --paper: #fff; --ink: #000; --soft: #444; --grid: #ccc; }
  .controls, .hint { display: none; }
  figure, tr { break-inside: avoid; }
  h2 { break-after: avoid; }
  .wide { overflow: visible; }
  th, td { font-size: 8pt; padding-right: 6px; }
}
figure { margin: 0; }
[hidden] { display: none !important; }
@media (max-width: 480px) { th, td { font-size: 13px; padding-right: 8px; } }
)css";

}  // namespace gradus::detail
