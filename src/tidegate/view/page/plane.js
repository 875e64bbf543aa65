// Points of two metrics, lower is better: a linear x axis, a logarithmic y axis, a name beside each point.

import { fill, number } from "./format.js";

const PLANE_WIDTH = 860, PLANE_HEIGHT = 460, LEFT = 66, RIGHT = 120, TOP = 16, BOTTOM = 46;

function svg(tag, attributes = {}, text = null) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== null) node.textContent = text;
  return node;
}

// Round steps that give four to eight ticks.
function ticks(low, high) {
  const raw = (high - low) / 5, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((part) => part * power).find((one) => one >= raw);
  const found = [];
  for (let value = Math.ceil(low / step) * step; value <= high + 1e-9; value += step) found.push(Number(value.toPrecision(6)));
  return found;
}

export function drawPlane(part, holder) {
  const xs = part.points.map((one) => one.x), ys = part.points.map((one) => one.y).concat(part.y_mark ?? []);
  const [low, high] = [Math.min(0, ...xs), Math.max(...xs) * 1.05 || 1];
  const [least, most] = [Math.floor(Math.log10(Math.min(...ys))), Math.ceil(Math.log10(Math.max(...ys)))];
  const x = (value) => LEFT + ((value - low) / (high - low)) * (PLANE_WIDTH - LEFT - RIGHT);
  const y = (value) => PLANE_HEIGHT - BOTTOM - ((Math.log10(value) - least) / (most - least || 1)) * (PLANE_HEIGHT - TOP - BOTTOM);
  const root = svg("svg", { viewBox: `0 0 ${PLANE_WIDTH} ${PLANE_HEIGHT}`, class: "plane", role: "img", "aria-label": part.title });
  for (const value of ticks(low, high)) {
    root.append(svg("line", { x1: x(value), x2: x(value), y1: TOP, y2: PLANE_HEIGHT - BOTTOM, class: "grid-line" }));
    root.append(svg("text", { x: x(value), y: PLANE_HEIGHT - BOTTOM + 18, class: "tick middle" }, number(value)));
  }
  for (let power = least; power <= most; power += 1) {
    const value = 10 ** power;
    root.append(svg("line", { x1: LEFT, x2: PLANE_WIDTH - RIGHT, y1: y(value), y2: y(value), class: "grid-line" }));
    root.append(svg("text", { x: LEFT - 8, y: y(value) + 4, class: "tick end" }, part.y_label.includes("%") ? number(value * 100) + " %" : number(value)));
  }
  if (part.y_mark !== null) root.append(svg("line", { x1: LEFT, x2: PLANE_WIDTH - RIGHT, y1: y(part.y_mark), y2: y(part.y_mark), class: "mark" }));
  root.append(svg("text", { x: (LEFT + PLANE_WIDTH - RIGHT) / 2, y: PLANE_HEIGHT - 8, class: "tick middle" }, part.x_label));
  root.append(svg("text", { x: 14, y: TOP + (PLANE_HEIGHT - TOP - BOTTOM) / 2, class: "tick middle", transform: `rotate(-90 14 ${TOP + (PLANE_HEIGHT - TOP - BOTTOM) / 2})` }, part.y_label));
  const taken = [];
  for (const one of [...part.points].sort((a, b) => y(a.y) - y(b.y))) {
    const size = one.large ? 8 : 5.5, at = [x(one.x), y(one.y)];
    root.append(svg("circle", { cx: at[0], cy: at[1], r: size, class: `dot ${one.colour}${one.hollow ? " hollow" : ""}` }));
    let line = at[1] + 4; // move names down that would overlap
    while (taken.some(([left, down]) => Math.abs(left - at[0]) < 110 && Math.abs(down - line) < 13)) line += 13;
    taken.push([at[0], line]);
    root.append(svg("text", { x: at[0] + size + 5, y: line, class: one.large ? "name strong" : "name" }, one.label));
  }
  fill(holder, root);
}
