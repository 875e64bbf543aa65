// Readable numbers and times, and elements whose text is never parsed as HTML.

export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") node.className = value;
    else if (name === "style") Object.assign(node.style, value);
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined) node.append(child instanceof Node ? child : String(child));
  }
  return node;
}

export function fill(node, ...children) {
  node.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
}

export function number(value, digits = 3) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e9) return trim(value / 1e9, digits) + " G";
  if (size >= 1e6) return trim(value / 1e6, digits) + " M";
  if (size >= 1e4) return trim(value / 1e3, digits) + " k";
  return trim(value, digits);
}

function trim(value, digits) {
  if (value === 0) return "0";
  const decimals = Math.max(0, digits - 1 - Math.floor(Math.log10(Math.abs(value))));
  const text = value.toFixed(Math.min(decimals, 6));
  return text.includes(".") ? text.replace(/0+$/, "").replace(/\.$/, "") : text;
}

export function seconds(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size === 0) return "0 s";
  if (size < 0.001) return trim(value * 1e6, 2) + " µs";
  if (size < 0.1) return trim(value * 1e3, 3) + " ms";
  if (size < 120 && size !== 60) return trim(value, 3) + " s";
  if (size < 7200) return trim(value / 60, 3) + " min";
  if (size < 172800) return trim(value / 3600, 3) + " h";
  return trim(value / 86400, 3) + " d";
}

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let place = 0;
  while (Math.abs(value) >= 1000 && place < units.length - 1) { value /= 1000; place += 1; }
  return trim(value, 3) + " " + units[place];
}

export function percent(value, digits = 1) {
  return value === null || value === undefined ? "–" : trim(value * 100, digits + 2) + " %";
}

const two = (value) => String(value).padStart(2, "0");

// Simulated time starts at 0, so it is shown as elapsed time, not as a date in 1970.
export function clock(time, withDate = false) {
  if (time === null || time === undefined) return "–";
  if (time < 1e8) {
    const whole = Math.round(time), hours = Math.floor(whole / 3600);
    const rest = two(Math.floor(whole / 60) % 60) + ":" + two(whole % 60);
    return hours ? hours + ":" + rest : rest;
  }
  const date = new Date(time * 1000);
  const text = two(date.getHours()) + ":" + two(date.getMinutes()) + ":" + two(date.getSeconds());
  return withDate ? date.getFullYear() + "-" + two(date.getMonth() + 1) + "-" + two(date.getDate()) + " " + text : text;
}

export function tick(time, step) {
  if (time < 1e8) return clock(time);
  const date = new Date(time * 1000);
  const day = two(date.getMonth() + 1) + "-" + two(date.getDate());
  if (step >= 86400) return day;
  const text = two(date.getHours()) + ":" + two(date.getMinutes());
  if (step >= 3600 && date.getHours() === 0) return day;
  return step < 60 ? text + ":" + two(date.getSeconds()) : text;
}
