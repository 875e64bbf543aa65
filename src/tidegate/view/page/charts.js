// Line charts over time: uPlot with our colours, units, ticks and objective lines.

import { el, fill, number, seconds, tick } from "./format.js";

const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];
const WHOLE = [1, 2, 5].flatMap((part) => [...Array(12).keys()].map((power) => part * 10 ** power)).sort((a, b) => a - b);
const ROUND_S = [.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 18000, 36000, 86400, 172800, 432000];
const HEIGHT = 190;
const UNITS = { s: seconds, rows: number, "rows/s": number, "": number, share: (value) => value === null || value === undefined ? "–" : number(value * 100) + " %" };
const drawn = new Map();

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();

// A faint fill that follows the theme.
function faint(name, strength) {
  const text = colour(name);
  const parts = [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
  return `rgba(${parts.join(",")},${strength})`;
}

// Called when a range is selected in a chart; set by the page.
let zoom = null;
export const onZoom = (act) => { zoom = act; };

// `lines`: {key, label, colour, dash, step, fill, width, loose, silent, say}. A loose line does not widen the axis, a silent one
// is not in the legend. `band`: [high, low] by key.
export function lineChart(holder, { time, columns, lines, unit, band, log = false, least = null, stacked = false, start, end, group = "tidegate", empty = "nothing measured in this range" }) {
  const known = lines.filter((line) => columns[line.key] && columns[line.key].some((value) => value !== null));
  if (!time.length || !known.length) {
    drop(holder);
    fill(holder, el("div", { class: "empty" }, empty));
    return;
  }
  let shown = known.map((line) => columns[line.key]);
  if (stacked) shown = stack(shown);
  if (log) shown = shown.map((column) => column.map((value) => (value !== null && value <= 0 ? null : value)));
  const data = [time, ...shown];
  const signature = JSON.stringify([known.map((line) => line.key), unit, log, document.documentElement.dataset.theme, stacked]);
  const old = drawn.get(holder);
  if (old && old.signature === signature && holder.contains(old.plot.root)) {
    old.span = [start, end];
    old.columns = columns;
    old.values = known.map((line) => columns[line.key]);
    old.plot.setData(data);
    rest(old.plot);
    return;
  }
  drop(holder);
  fill(holder);
  const state = { signature, columns, span: [start, end], values: known.map((line) => columns[line.key]) };
  const say = UNITS[unit];
  const index = Object.fromEntries(known.map((line, place) => [line.key, place + 1]));
  const options = {
    width: Math.max(240, holder.clientWidth), height: HEIGHT,
    padding: [10, 20, 0, 0],
    cursor: { sync: { key: group, setSeries: false }, points: { size: 6 }, drag: { x: true, y: false, setScale: false, dist: 8 } },
    legend: { live: true, markers: { width: 0, fill: (_, place) => (place ? colour(known[place - 1].colour) : "transparent") } },
    scales: {
      x: { time: false, range: () => state.span },
      y: log ? { distr: 3, range: (_, low, high) => [Math.max(1e-3, low / 1.5), high * 1.5] }
             : unit === "share" ? { range: (_, low) => [Math.max(-1, Math.min(0, low ?? 0)), 1.06] }
             : { range: (plot, low, high) => [Math.min(0, low ?? 0), Math.max(least ?? 0, top(plot, known, high ?? 1) * 1.08) || 1] },
    },
    axes: [
      { stroke: colour("soft"), grid: { stroke: faint("faint", .14), width: 1 }, ticks: { stroke: faint("faint", .3), width: 1, size: 4 }, incrs: STEPS, space: 62, font: "11px system-ui, sans-serif", size: 30,
        values: (_, splits, __, ___, step) => splits.map((value) => tick(value, step)) },
      { stroke: colour("soft"), grid: { stroke: faint("faint", .14), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif", size: 62,
        ...(log ? { splits: (_, __, low, high) => decades(low, high), filter: (_, splits) => splits } : { space: 34, ...(unit === "" || unit === "rows" ? { incrs: WHOLE } : unit === "s" ? { incrs: ROUND_S } : {}) }),
        values: (_, splits) => splits.map((value) => (value === null ? null : say(value))) },
    ],
    series: [
      { label: "time", value: (_, value) => (value === null ? "" : tick(value, 1)) },
      ...known.map((line, place) => ({
        label: line.label, show: !line.hidden, class: line.silent ? "silent" : null, stroke: colour(line.colour), width: line.width ?? 1.7, dash: line.dash,
        fill: stacked ? faint(line.colour, .55) : line.fill ? faint(line.colour, .14) : undefined,
        paths: line.step ? uPlot.paths.stepped({ align: 1 }) : undefined,
        points: { show: time.length < 3 }, spanGaps: true,
        value: (_, value, __, at) => (line.say ? line.say(at, state.columns) : say(newest(state.values[place], at))),
      })),
    ],
    bands: band && index[band[0]] && index[band[1]] ? [{ series: [index[band[0]], index[band[1]]], fill: faint("sky", .22) }]
      : stacked ? known.slice(1).map((_, place) => ({ series: [place + 2, place + 1] })) : [],
    hooks: {
      setSelect: [(plot) => select(plot)],
      setCursor: [(plot) => { if (plot.cursor.idx === null || plot.cursor.left < 0) rest(plot); }],
    },
  };
  state.plot = new uPlot(options, data, holder);
  drawn.set(holder, state);
  watch.observe(holder);
  rest(state.plot);
}

// The largest value that the axis must show.
function top(plot, lines, high) {
  if (!lines.some((line) => line.loose) || lines.every((line) => line.loose)) return high;
  let most = 0;
  lines.forEach((line, place) => { if (!line.loose) for (const value of plot.data[place + 1]) if (value > most) most = value; });
  return most;
}

function select(plot) {
  const { left, width } = plot.select;
  if (width < 8) return;
  const span = [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")];
  plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
  if (zoom && plot.cursor.sync.key === "tidegate") zoom(...span);
}

// Without a cursor, the legend shows the newest values.
function rest(plot) {
  const last = plot.data[0].length - 1;
  if (last >= 0 && plot.legend.idx !== last) plot.setLegend({ idx: last }, false);
}

// Not every second has a batch, so the legend shows the newest value of the last half minute.
export function newest(column, at) {
  if (at === null || !column) return null;
  for (let place = at; place >= 0 && place > at - 30; place -= 1) if (column[place] !== null) return column[place];
  return null;
}

// Missing measurements are drawn as a gap, not as zero.
function stack(columns) {
  const empty = columns[0].map((_, place) => columns.every((column) => column[place] === null));
  const found = [];
  for (const column of columns) {
    const below = found[found.length - 1];
    found.push(column.map((value, place) => (empty[place] ? null : (value ?? 0) + (below ? below[place] : 0))));
  }
  return found;
}

// 1, 2, 5, 10, 20, 50 …: as many as fit.
function decades(low, high) {
  const wide = Math.log10(high / low) > 2.2;
  const found = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
    for (const part of wide ? [1] : [1, 2, 5]) {
      const value = part * 10 ** power;
      if (value >= low && value <= high) found.push(value);
    }
  }
  return found;
}

const watch = new ResizeObserver((entries) => {
  for (const entry of entries) {
    const state = drawn.get(entry.target);
    const width = Math.floor(entry.contentRect.width);
    if (state && width > 60 && Math.abs(state.plot.width - width) > 1) state.plot.setSize({ width, height: HEIGHT });
  }
});

function drop(holder) {
  const old = drawn.get(holder);
  if (old) { old.plot.destroy(); drawn.delete(holder); }
}
