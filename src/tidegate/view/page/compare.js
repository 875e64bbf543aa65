// A report that compares runs: text, tables, lines and points above the panels of each run.

import { lineChart } from "./charts.js";
import { el } from "./format.js";
import { drawPlane } from "./plane.js";

export function drawComparison(comparison) {
  const section = document.getElementById("comparison");
  section.hidden = false;
  const holders = comparison.parts.map((part) => ({ part, holder: el("div", { class: "chart" }) }));
  section.replaceChildren(
    el("h1", {}, comparison.title), el("p", {}, comparison.text),
    ...holders.map(({ part, holder }) => (part.kind === "table" ? tablePart(part) : el("article", { class: "panel" + (part.kind === "plane" ? " wide" : "") }, el("h2", {}, part.title), el("p", { class: "hint" }, part.hint), holder))));
  for (const { part, holder } of holders) { // once they are on the page and have a width
    if (part.kind === "lines") drawLines(part, holder);
    if (part.kind === "plane") drawPlane(part, holder);
  }
}

function drawLines(part, holder) {
  const columns = Object.fromEntries(part.lines.map((line, place) => ["line" + place, line.values]));
  const lines = part.lines.map((line, place) => ({ key: "line" + place, label: line.label, colour: line.colour, step: line.step, hidden: line.hidden, fill: line.fill, width: line.wide ? 2.4 : 1.6, dash: line.dashed ? [6, 4] : undefined }));
  lineChart(holder, { time: part.time_s, columns, lines, unit: part.unit, log: part.log, start: part.time_s[0], end: part.time_s[part.time_s.length - 1], group: "comparison" });
}

function tablePart(part) {
  const table = el("div", { class: "scroll" }, el("table", {}, el("tr", {}, part.heads.map((head) => el("th", {}, head))), part.rows.map((row) => el("tr", {}, row.map((cell) => el("td", {}, cell))))));
  if (part.folded) return el("article", { class: "panel wide" }, el("details", {}, el("summary", {}, part.title), table));
  return el("article", { class: "panel wide" }, part.title ? el("h2", {}, part.title) : null, table);
}
