#pragma once
// The script of the page that write_memory_page writes: it draws the data that the page holds.

#include <string_view>

namespace gradus::detail {

// Level k of a trace is what is live after k events. It lasts from at(k) to at(k + 1).
inline constexpr std::string_view memory_page_script = R"js(
'use strict';
const data = JSON.parse(document.getElementById('data').textContent);
const el = id => document.getElementById(id);
const phaseShade = [0, 0.12, 0.8, 0.35, 0.58];
let trace, byTime, timed = true, from, to, cursor = null, shown = 0, drag = null, paper = 0;

for (const t of data.traces) {
  const n = t.times.length;
  t.events = new Array(n);
  t.blocks.forEach((b, i) => { t.events[b[4]] = [i, 1]; t.events[b[5]] = [i, -1]; });
  t.live = data.categories.map((_, c) => { const a = new Float64Array(n + 1); a[0] = t.before[c]; return a; });
  t.all = new Float64Array(n + 1);
  t.all[0] = t.before.reduce((a, b) => a + b, 0);
  t.peak = 0;
  t.events.forEach(([i, sign], e) => {
    const [bytes, category] = t.blocks[i];
    t.live.forEach((a, c) => a[e + 1] = a[e] + (c === category ? sign * bytes : 0));
    t.all[e + 1] = t.all[e] + sign * bytes;
    if (t.all[e + 1] > t.all[t.peak]) t.peak = e + 1;
  });
}

const size = bytes => {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let u = 0;
  for (; bytes >= 1024 && u < 4; bytes /= 1024) ++u;
  return bytes.toFixed(u === 0 ? 0 : u < 3 ? 1 : 2) + ' ' + units[u];
};
const duration = (us, most = us, digits = 2) =>
  most >= 1e6 ? (us / 1e6).toFixed(digits) + ' s' : most >= 1e3 ? (us / 1e3).toFixed(digits) + ' ms'
                                                                : us.toFixed(digits) + ' \u00b5s';
const nice = rough => {
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * [1, 2, 5, 10].find(lead => lead * power >= rough * 0.999);
};
const svg = (tag, attributes, text) => {
  const e = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const k in attributes) e.setAttribute(k, attributes[k]);
  if (text !== undefined) e.textContent = text;
  return e;
};
const end = () => byTime ? Math.max(1e-3, trace.end) : Math.max(1, trace.times.length);
const eventAt = e => byTime ? trace.times[e] : e;
const at = k => k === 0 ? 0 : k > trace.times.length ? end() : eventAt(k - 1);
const levelAt = x => {
  let low = 0, high = trace.times.length;
  while (low < high) { const mid = (low + high + 1) >> 1; if (at(mid) <= x) low = mid; else high = mid - 1; }
  return low;
};
const opAt = x => {  // the innermost one, which is the last that began
  const [b, e] = byTime ? [4, 5] : [2, 3];
  let found = null;
  for (const op of trace.ops) { if (op[b] > x) break; if (x < op[e]) found = op; }
  return found;
};

// What both pictures share: their width, their x axis, the cursor, and dragging to zoom.
function frame(node, height, below) {
  const width = paper || Math.max(300, node.parentNode.clientWidth), left = 66, right = 12, top = 18;
  node.replaceChildren();
  node.setAttribute('viewBox', `0 0 ${width} ${height + top + below}`);
  const f = {node, left, top, bottom: top + height, width: width - left - right};
  f.x = v => Math.min(f.width, Math.max(0, (v - from) / (to - from) * f.width)) + left;
  f.back = px => from + Math.min(1, Math.max(0, (px - left) / f.width)) * (to - from);
  const step = Math.max(byTime ? 0 : 1, nice((to - from) / (f.width / 90)));
  const digits = unit => Math.max(0, Math.min(6, Math.ceil(-Math.log10(step / unit) - 1e-9)));
  for (let v = Math.ceil(from / step) * step; v <= to * (1 + 1e-9); v += step) {
    node.append(svg('line', {class: 'grid', x1: f.x(v), x2: f.x(v), y1: top, y2: f.bottom}));
    const unit = to >= 1e6 ? 1e6 : to >= 1e3 ? 1e3 : 1;
    node.append(svg('text', {x: f.x(v), y: f.bottom + below - 8, 'text-anchor': 'middle'},
                    byTime ? duration(v, to, digits(unit)) : Math.round(v)));
  }
  if (!byTime) node.append(svg('text', {x: 4, y: f.bottom + below - 8}, 'event'));
  return f;
}
function heightAxis(f, most, label) {
  const unit = 1024 ** Math.max(0, Math.min(4, Math.floor(Math.log2(Math.max(1, most)) / 10)));
  const step = nice(most / unit / 5) * unit, digits = Math.max(0, Math.ceil(-Math.log10(step / unit) - 1e-9));
  const top = most * 1.04, y = v => f.bottom - v / top * (f.bottom - f.top);
  const name = {0: 'B', 1: 'KiB', 2: 'MiB', 3: 'GiB', 4: 'TiB'}[Math.round(Math.log2(unit) / 10)];
  for (let v = 0; v <= top; v += step) {
    f.node.append(svg('line', {class: 'grid', x1: f.left, x2: f.left + f.width, y1: y(v), y2: y(v)}));
    f.node.append(svg('text', {x: f.left - 6, y: y(v) + 4, 'text-anchor': 'end'}, (v / unit).toFixed(digits)));
  }
  f.node.append(svg('text', {x: 4, y: 11}, `${label}, ${name}`));
  return y;
}
function follow(f) {
  f.line = svg('line', {class: 'cursor', y1: f.top, y2: f.bottom, visibility: 'hidden'});
  f.node.append(f.line);
  f.box = svg('rect', {class: 'range', y: f.top, height: f.bottom - f.top, width: 0});
  f.node.append(f.box);
  const point = e => {
    const r = f.node.getBoundingClientRect(), scale = (f.width + f.left + 12) / r.width;
    return [(e.clientX - r.left) * scale, (e.clientY - r.top) * scale];
  };
  f.node.onpointerdown = e => {
    if (e.pointerType === 'touch') return;
    drag = point(e)[0];
    f.node.setPointerCapture(e.pointerId);
  };
  f.node.onpointermove = e => {
    const [x, y] = point(e);
    cursor = f.back(x);
    if (drag !== null) {
      f.box.setAttribute('x', Math.min(x, drag));
      f.box.setAttribute('width', Math.abs(x - drag));
    }
    tell(f.block ? f.block(cursor, y) : null);
  };
  f.node.onpointerup = e => {
    const start = drag, x = point(e)[0];
    drag = null;
    f.box.setAttribute('width', 0);
    if (start !== null && Math.abs(x - start) > 6) zoom(...[f.back(start), f.back(x)].sort((a, b) => a - b));
  };
  f.node.ondblclick = () => zoom(0, end());
  f.node.onkeydown = e => {
    const way = {ArrowLeft: -1, ArrowRight: 1}[e.key];
    if (!way) return;
    e.preventDefault();
    const level = Math.min(trace.times.length, Math.max(0, shown + way));
    cursor = at(level);
    tell(null, level);
  };
  return f;
}

let frames = [];
function draw() {
  const f = frame(el('chart'), 340, 48), first = levelAt(from), last = levelAt(to);
  const y = heightAxis(f, trace.all[trace.peak] || 1, 'live');
  // Painted from the whole stack down, so that each area only needs its upper edge.
  const tops = trace.all.slice(first, last + 1);
  for (const c of data.stack.slice().reverse()) {
    let path = `M${f.left} ${f.bottom}V${y(tops[0]).toFixed(1)}`;
    for (let k = first + 1; k <= last; ++k)
      if (tops[k - first] !== tops[k - first - 1]) path += `H${f.x(at(k)).toFixed(1)}V${y(tops[k - first]).toFixed(1)}`;
    path += `H${f.left + f.width}V${f.bottom}Z`;
    f.node.append(svg('path', {class: 'area', fill: data.categories[c][1], d: path}));
    for (let k = first; k <= last; ++k) tops[k - first] -= trace.live[c][k];
  }
  drawPhases(f);
  const peak = at(trace.peak), x = f.x(peak);
  if (peak >= from && peak <= to) {
    const late = x > f.left + f.width / 2, top = y(trace.all[trace.peak]);
    f.node.append(svg('line', {class: 'mark', x1: x, x2: x, y1: top, y2: f.bottom}));
    f.node.append(svg('circle', {cx: x, cy: top, r: 4, fill: 'var(--ink)'}));
    const place = {class: 'note', x: x + (late ? -8 : 8), y: top + 4, 'text-anchor': late ? 'end' : 'start'};
    f.node.append(svg('text', place, 'peak ' + size(trace.all[trace.peak])));
  }
  frames = [follow(f)];
  el('places').hidden = !trace.offsets;
  if (trace.offsets) drawLives();
  tell();
}
function drawPhases(f) {
  const b = byTime ? 4 : 2, steps = [];
  trace.ops.forEach(op => { if (!steps.length || steps[steps.length - 1][1] !== op[1]) steps.push([op[b], op[1]]); });
  steps.forEach(([x, phase], i) => {
    const next = i + 1 < steps.length ? steps[i + 1][0] : end();
    if (next <= from || x >= to) return;
    f.node.append(svg('rect', {class: 'phase', x: f.x(x), width: f.x(next) - f.x(x), y: f.bottom + 4, height: 10,
                               opacity: phaseShade[phase]}));
  });
}
function drawLives() {
  const f = frame(el('lives'), 300, 26);
  const y = heightAxis(f, Math.max(1, ...trace.blocks.map((b, i) => trace.offsets[i] + b[0])), 'address');
  const paths = data.categories.map(() => '');
  trace.blocks.forEach((b, i) => {
    const [x1, x2] = [eventAt(b[4]), eventAt(b[5])];
    if (x2 < from || x1 > to) return;
    // A gap to the neighbours, where there is room for one.
    const gap = length => length > 2 ? length - 0.6 : length;
    const left = f.x(x1), low = y(trace.offsets[i]);
    const width = gap(f.x(x2) - left).toFixed(1), height = gap(low - y(trace.offsets[i] + b[0])).toFixed(2);
    paths[b[1]] += `M${left.toFixed(1)} ${low.toFixed(2)}h${width}v-${height}h-${width}z`;
  });
  paths.forEach((d, c) => { if (d) f.node.append(svg('path', {fill: data.categories[c][1], d})); });
  f.block = (x, py) => trace.blocks.find((b, i) => eventAt(b[4]) <= x && x < eventAt(b[5]) &&
                                                   py <= y(trace.offsets[i]) && py >= y(trace.offsets[i] + b[0]));
  frames.push(follow(f));
}

// What is live at the cursor, or else at the peak; which operation runs; which block is pointed at.
function tell(block, level = cursor === null ? trace.peak : levelAt(cursor)) {
  shown = level;
  const x = cursor === null ? at(level) : cursor, op = opAt(x), total = trace.all[level];
  for (const f of frames) {
    for (const a of ['x1', 'x2']) f.line.setAttribute(a, f.x(x));
    f.line.setAttribute('visibility', cursor !== null && x >= from && x <= to ? 'visible' : 'hidden');
  }
  const parts = [(cursor === null ? 'At the peak: ' : '') + size(total) + ' live'];
  if (trace.unit) parts.push(duration(byTime ? x : level ? trace.times[level - 1] : 0) + ' (' + trace.unit + ')');
  parts.push(`event ${level} of ${trace.times.length}`);
  parts.push(op ? `${data.phases[op[1]]}: ${data.names[op[0]]}` : 'between operations');
  const event = level > 0 ? trace.events[level - 1] : null, b = block || (event && trace.blocks[event[0]]);
  if (b) {
    const what = block ? '' : event[1] > 0 ? 'just asked for: ' : 'just ended: ';
    const by = b[2] < 0 ? '' : ' of ' + data.names[b[2]], kept = b[6] < 0 ? '' : ', kept by ' + data.names[b[6]];
    parts.push(what + size(b[0]) + ' ' + data.categories[b[1]][0] + by + kept);
  }
  el('where').textContent = parts.join(' \u00b7 ');
  data.categories.forEach((_, c) => {
    const bytes = trace.live[c][level];
    const share = total ? ` ${(100 * bytes / total).toFixed(1).padStart(5, '\u2007')} %` : '';
    el('value' + c).textContent = size(bytes) + share;
  });
}

function zoom(a, b) {
  const least = byTime ? Math.max(0.1, end() / 1e5) : 4;
  if (b - a < least) [a, b] = [(a + b - least) / 2, (a + b + least) / 2];
  [from, to] = [Math.max(0, a), Math.min(end(), b)];
  draw();
}
function show(which) {
  const before = trace, level = cursor === null ? null : levelAt(cursor);
  trace = data.traces[which];
  byTime = timed && trace.unit !== '';
  cursor = level === null || before !== trace ? null : at(level);
  data.traces.forEach((_, i) => el('trace' + i).setAttribute('aria-pressed', i === which));
  el('time').hidden = el('sequence').hidden = trace.unit === '';
  el('time').setAttribute('aria-pressed', byTime);
  el('sequence').setAttribute('aria-pressed', !byTime);
  zoom(0, end());
}
el('time').onclick = () => { timed = true; show(data.traces.indexOf(trace)); };
el('sequence').onclick = () => { timed = false; show(data.traces.indexOf(trace)); };
el('whole').onclick = () => zoom(0, end());
el('closer').onclick = () => {
  const middle = cursor === null ? at(trace.peak) : cursor, half = (to - from) / 8;
  zoom(middle - half, middle + half);
};

// The parts of the page that depend on the data.
const make = (tag, className, parent) => {
  const e = parent.appendChild(document.createElement(tag));
  e.className = className;
  return e;
};
data.traces.forEach((t, i) => {
  const button = make('button', '', el('which'));
  button.id = 'trace' + i;
  button.textContent = t.label;
  button.onclick = () => show(i);
});
for (const c of data.stack.slice().reverse()) {
  const row = make('li', '', el('legend'));
  make('span', 'swatch', row).style.background = data.categories[c][1];
  row.append(data.categories[c][0]);
  make('span', 'value', row).id = 'value' + c;
}
data.phases.forEach((name, p) => {
  const item = make('span', '', el('phases'));
  make('span', 'shade', make('span', 'swatch', item)).style.opacity = phaseShade[p];
  item.append(name);
});
show(0);
window.addEventListener('resize', draw);
window.addEventListener('beforeprint', () => { paper = 800; draw(); });
window.addEventListener('afterprint', () => { paper = 0; draw(); });
)js";

}  // namespace gradus::detail
