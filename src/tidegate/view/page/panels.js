// The panels: each draws data from the API. Nothing here fetches anything.

import { lineChart, newest } from "./charts.js";
import { bytes, clock, el, fill, number, percent, seconds } from "./format.js";

const rate = (value) => (value === null ? "–" : number(value) + "/s");
const chartOf = (name) => document.querySelector(`#panel-${name} .chart`);
const bodyOf = (name) => document.querySelector(`#panel-${name} .body`);

export function drawSeries(series) {
  const base = { time: series.time_s, columns: series.columns, start: series.start_s, end: series.end_s };
  const p99 = (series.columns.p99_s ?? []).filter((value) => value > 0);
  const middle = (series.columns.p50_s ?? []).filter((value) => value > 0);
  const log = p99.length > 0 && middle.length > 0 && Math.max(...p99) / Math.min(...middle) > 30;
  lineChart(chartOf("latency"), { ...base, unit: "s", log, lines: [
    { key: "p50_s", label: "p50", colour: "sky" },
    { key: "p90_s", label: "p90", colour: "blue" },
    { key: "p99_s", label: "p99", colour: "orange", width: 2.2 },
    { key: "objective_s", label: "objective", colour: "grey", dash: [6, 4], width: 1.4 },
  ] });
  lineChart(chartOf("arrivals"), { ...base, unit: "rows/s", band: ["expected_high", "expected_low"], lines: [
    { key: "arrival", label: "arrivals", colour: "blue", width: 2.2 },
    { key: "expected", label: "forecast", colour: "pink", dash: [3, 3], width: 1.4 },
    { key: "expected_high", label: "its band", colour: "sky", width: 0.6, say: (at, columns) => between(columns.expected_low, columns.expected_high, at) },
    { key: "expected_low", label: "", colour: "sky", width: 0.6, silent: true },
    { key: "capacity", label: "capacity", colour: "grey", dash: [6, 4], step: true, width: 1.4 },
  ] });
  lineChart(chartOf("backlog"), { ...base, unit: "rows", least: 10, lines: [
    { key: "backlog_rows", label: "waiting", colour: "blue", fill: true, width: 2 },
    { key: "admission_rows", label: "admitted per trigger", colour: "grey", dash: [6, 4], step: true, width: 1.2, loose: true },
  ] });
  lineChart(chartOf("catchup"), { ...base, unit: "s", lines: [
    { key: "backlog_s", label: "oldest row", colour: "blue", fill: true, width: 2 },
    { key: "catch_up_s", label: "predicted catch-up", colour: "orange", loose: true },
    { key: "watermark_gap_s", label: "watermark gap", colour: "pink", dash: [3, 3] },
    { key: "objective_s", label: "objective", colour: "grey", dash: [6, 4], width: 1.4, loose: true },
  ] });
  lineChart(chartOf("executors"), { ...base, unit: "", least: 2, lines: [
    { key: "wanted", label: "wanted", colour: "pink", step: true, dash: [3, 3] },
    { key: "requested", label: "requested", colour: "orange", step: true },
    { key: "registered", label: "registered", colour: "blue", step: true, fill: true, width: 2.2 },
  ] });
  lineChart(chartOf("budget"), { ...base, unit: "share", least: 1, lines: [
    { key: "budget_left", label: "left", colour: "green", fill: true, width: 2, say: (at, columns) => budgetText(newest(columns.budget_left, at)) },
  ] });
  lineChart(chartOf("batch"), { ...base, unit: "s", stacked: true, lines: [
    { key: "planning_s", label: "planning", colour: "sky" },
    { key: "offsets_s", label: "reading offsets", colour: "blue" },
    { key: "stages_s", label: "stages", colour: "green" },
    { key: "log_s", label: "logs and commit", colour: "yellow" },
    { key: "sink_s", label: "sink", colour: "pink" },
  ] });
  document.querySelector("#panel-state .hint").textContent = growth(series);
  lineChart(chartOf("state"), { ...base, unit: "rows", empty: "no stateful operator in this range", lines: [
    { key: "state_rows", label: "state rows", colour: "green", fill: true, width: 2 },
  ] });
}

const budgetText = (left) => (left === null ? "–" : left < -1 ? `overspent ${number(-left, 2)} times` : percent(left, 0));

function between(low, high, at) {
  const from = newest(low, at), to = newest(high, at);
  return from === null || to === null ? "–" : `${number(from)} to ${number(to)}`;
}

// The amount of state, and how fast it grows over the range.
function growth(series) {
  const rows = series.columns.state_rows ?? [], held = series.columns.state_bytes ?? [];
  const seen = rows.map((value, place) => [series.time_s[place], value]).filter(([, value]) => value !== null);
  if (seen.length < 2) return "rows kept by stateful operators";
  const [[from, first], [to, last]] = [seen[0], seen[seen.length - 1]];
  const perMinute = ((last - first) / Math.max(1, to - from)) * 60;
  const size = [...held].reverse().find((value) => value !== null && value !== undefined);
  const change = Math.abs(perMinute) < 0.5 ? "steady" : `${perMinute > 0 ? "growing" : "shrinking"} by ${number(Math.abs(perMinute))} rows a minute`;
  return `${number(last)} rows` + (size ? `, ${bytes(size)}` : "") + `; ${change}`;
}

// All applications of the journal, least error budget first; select one to see its panels.
export function drawApplications(applications, chosen, choose) {
  const panel = document.getElementById("panel-applications");
  panel.hidden = applications.length < 2;
  if (panel.hidden) return;
  const worst = [...applications].sort((a, b) => (a.budget_left ?? 2) - (b.budget_left ?? 2));
  const heads = ["application", "class", "p99", "objective", "budget left", "backlog", "catch-up", "arrivals", "capacity"];
  const rows = worst.map((one) => {
    const late = one.latency_p99_s !== null && one.objective_s !== null && one.latency_p99_s > one.objective_s;
    const name = el("button", { type: "button", class: "link", onclick: () => choose(one.application) }, one.application);
    const state = one.error ? "failed" : one.running ? null : "stopped";
    const cells = [[name, state ? el("span", { class: "flag" }, " " + state) : null], one.class_name ?? "–", el("span", { class: late ? "bad-text" : null }, seconds(one.latency_p99_s)), seconds(one.objective_s), budget(one.budget_left),
      number(one.backlog_rows), one.backlog_rows && one.catch_up_s === null && one.capacity_rows_per_s !== null ? "never" : seconds(one.catch_up_s), rate(one.arrival_rows_per_s), rate(one.capacity_rows_per_s)];
    return el("tr", { class: one.application === chosen ? "chosen" : null }, cells.map((cell) => el("td", {}, cell)));
  });
  fill(bodyOf("applications"), el("div", { class: "scroll tall" }, el("table", {}, el("tr", {}, heads.map((head) => el("th", {}, head))), rows)));
}

const levelOf = (left) => (left === null ? "" : left <= 0 ? "bad" : left < 0.5 ? "warn" : "good");

function budget(left) {
  if (left === null) return "–";
  return [el("div", { class: "meter inline " + levelOf(left) }, el("i", { style: { width: Math.max(0, Math.min(1, left)) * 100 + "%" } })), percent(Math.max(0, left), 0)];
}

export function drawTiles(overview, now) {
  const tiles = [];
  const tile = (name, value, more, kind = "", extra = null) =>
    tiles.push(el("div", { class: "tile " + kind }, el("div", { class: "name" }, name), el("div", { class: "value" }, value), extra, el("div", { class: "more" }, more)));
  if (now) {
    const late = now.objective_s !== null && now.latency_p99_s !== null && now.latency_p99_s > now.objective_s;
    tile("latency p99", seconds(now.latency_p99_s), now.objective_s === null ? "no objective known" : `objective ${seconds(now.objective_s)}` + (now.percentile ? ` for ${percent(now.percentile)}` : ""), now.latency_p99_s === null ? "" : late ? "bad" : "good");
    const left = now.budget_left, level = levelOf(left);
    tile("error budget left", left === null ? "–" : percent(Math.max(0, left), 0), left !== null && left <= 0 ? "spent" : "of the current window", level,
      left === null ? null : el("div", { class: "meter " + level }, el("i", { style: { width: Math.max(0, Math.min(1, left)) * 100 + "%" } })));
    tile("backlog", el("span", {}, number(now.backlog_rows), el("small", {}, " rows")),
      now.backlog_rows ? `${seconds(now.backlog_s)} old, ` + (now.catch_up_s === null ? "not catching up" : `caught up in ${seconds(now.catch_up_s)}`) : "nothing waits", now.backlog_rows && now.catch_up_s === null && now.capacity_rows_per_s !== null ? "warn" : "");
    tile("arrivals", el("span", {}, number(now.arrival_rows_per_s), el("small", {}, " rows/s")), `capacity ${number(now.capacity_rows_per_s)}, expected ${number(now.expected_rows_per_s)}`);
  }
  if (overview.pool) {
    const pool = overview.pool;
    tile("executors", el("span", {}, String(pool.registered), el("small", {}, ` of ${pool.most ?? "–"}`)), `wanted ${pool.wanted}, requested ${pool.requested}`, pool.registered !== pool.requested ? "warn" : "");
    tile("disruptions left", pool.disruptions_left === null ? "–" : String(pool.disruptions_left), "this hour");
  }
  fill(document.getElementById("tiles"), tiles);
}

const title = (moment) => moment.kind === "held" ? (moment.guards.length ? "held: " + moment.guards.join(", ") : "held") : moment.title;

export function drawTimeline(moments, start, end, open) {
  const strip = document.querySelector("#panel-timeline .strip"), list = document.querySelector("#panel-timeline .moments");
  const wide = Math.max(1e-9, end - start);
  const place = (time) => Math.max(0, Math.min(100, ((time - start) / wide) * 100));
  fill(strip, moments.map((moment) => {
    const left = place(moment.time_s), kind = moment.kind + (moment.kind === "held" && moment.guards.length ? " guarded" : "");
    const style = moment.kind === "acted" ? { left: left + "%" } : { left: left + "%", width: Math.max(0.15, place(moment.end_s) - left) + "%" };
    return el("button", { type: "button", class: kind, style, title: `${clock(moment.time_s)}  ${title(moment)}`, tabindex: "-1", onclick: () => open(moment) });
  }));
  const times = el("div", { class: "times" }, [0, .25, .5, .75, 1].map((part) => el("span", {}, clock(start + part * wide, part === 0 && wide > 86400))));
  const key = el("div", { class: "key" }, ...[["k-acted", "acted"], ["k-rec", "recommended"], ["k-guard", "held by a guard"], ["k-held", "nothing to do"]].map(([kind, words]) => el("span", { class: kind }, el("i"), words)));
  const rows = moments.filter((moment) => moment.kind !== "held" || moment.guards.length || moment.advice.length).slice(-80).reverse();
  const quiet = moments.filter((moment) => moment.kind === "held").slice(-1);
  fill(list, times, key, ...(rows.length ? rows : quiet).map((moment) => el("button", { type: "button", class: "moment " + moment.kind, "data-number": moment.number, onclick: () => open(moment) },
    el("span", { class: "when" }, clock(moment.time_s) + (moment.steps > 1 ? " – " + clock(moment.end_s) : "")), el("span", { class: "what" }, title(moment)), el("span", { class: "why" }, moment.reason))));
  if (!moments.length) fill(list, el("div", { class: "empty" }, "no decisions in this range"));
}

// Three things can limit an operator. Each has its own colour scale and shows its value.
function heat(name, value, text, warm, hot) {
  const kind = value === null || value === undefined ? "" : value > hot ? "hot" : value > warm ? "warm" : "cool";
  return el("span", { class: "heat " + kind }, el("small", {}, name), text);
}

export function drawOperators(operators, now) {
  const graph = document.querySelector("#panel-operators .graph");
  if (!operators.length) { fill(graph, el("div", { class: "empty" }, "no operators were seen in this range")); return; }
  const parts = [], gap = now ? now.watermark_gap_s : null, allowed = now && now.objective_s ? now.objective_s : 60;
  const worst = operators.reduce((most, one) => (one.load !== null && (most === null || one.load > most.load) ? one : most), null);
  operators.forEach((one, place) => {
    if (place) parts.push(el("div", { class: "arrow" }, operators[place - 1].rows_out_per_s === null ? "" : number(operators[place - 1].rows_out_per_s) + " rows/s"));
    const marks = [heat("load", one.load, percent(one.load, 0), 0.6, 0.85)];
    if (one.skew !== null) marks.push(heat("skew", one.skew, "× " + number(one.skew, 2), 1.5, 3));
    if (one.state_rows && gap !== null) marks.push(heat("watermark", gap / allowed, "−" + seconds(gap), 2, 10));
    const facts = [["rows in", rate(one.rows_in_per_s)], ["capacity", rate(one.capacity_rows_per_s)], ["cost per row", seconds(one.row_s)], ["tasks", number(one.parallelism)]];
    if (one.communication > 0.005) facts.push(["exchange", percent(one.communication)]);
    if (one.state_rows) facts.push(["state", number(one.state_rows) + " rows"]);
    if (one.state_bytes) facts.push(["state size", bytes(one.state_bytes)]);
    const kind = one === worst && operators.length > 1 ? " busiest" : "";
    parts.push(el("div", { class: "operator" + kind }, el("b", {}, one.operator), el("div", { class: "heats" }, marks), el("dl", {}, facts.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]))));
  });
  fill(graph, parts);
}

export function drawClasses(classes) {
  if (!classes.length) { fill(bodyOf("classes"), el("div", { class: "empty" }, "the policy has no classes")); return; }
  const shares = classes.filter((one) => one.share !== null);
  const table = el("div", { class: "scroll" }, el("table", {}, el("tr", {}, ["class", "objective", "rows", "violations", "this window", "allowed", "worst p99"].map((head) => el("th", {}, head))),
    classes.map((one) => el("tr", {}, [one.name, seconds(one.latency_s), number(one.rows), percent(one.late_share), percent(one.window_share), percent(one.bound), seconds(one.worst_p99_s)].map((cell) => el("td", {}, cell))))));
  const bars = shares.length ? [el("p", { class: "hint" }, "shares of the slots"), el("div", { class: "bars" }, shares.map((one) => bar(one.name, one.share, percent(one.share))))] : [];
  fill(bodyOf("classes"), table, ...bars);
}

function bar(name, share, text, other = false) {
  return [el("span", {}, name), el("div", { class: "track" }, el("i", { class: other ? "other" : null, style: { width: Math.max(0, Math.min(1, share)) * 100 + "%" } })), el("span", { class: "n" }, text)];
}

export function drawCost(cost, pool) {
  const most = Math.max(cost.money, cost.fixed_money ?? 0) || 1;
  const priced = cost.price_per_hour !== 1, say = (value) => number(value) + (priced ? "" : " executor-hours");
  const rows = [bar("Tidegate", cost.money / most, say(cost.money))];
  if (cost.fixed_money !== null) rows.push(bar(`${cost.fixed_executors} fixed`, cost.fixed_money / most, say(cost.fixed_money), true));
  const plural = cost.fixed_executors === 1 ? "executor" : "executors";
  const saved = cost.saved === null ? "The needed size is unknown in this range, so there is no comparison."
    : `${percent(Math.abs(cost.saved))} ${cost.saved >= 0 ? "less" : "more"} than ${cost.fixed_executors} ${plural} all the time.`;
  const short = pool && pool.most !== null && cost.fixed_executors > pool.most ? el("p", { class: "bad-text" }, `The busiest minute needs ${cost.fixed_executors} executors; the policy allows ${pool.most}.`) : null;
  const price = priced ? `, at ${number(cost.price_per_hour)} per hour` : "; set executors.price_per_hour to see money";
  fill(bodyOf("cost"), el("div", { class: "bars" }, rows), short ?? el("p", {}, saved), el("p", { class: "hint" }, `${number(cost.executor_hours)} executor-hours in ${seconds(cost.hours * 3600)}${price}`));
}

export function drawLag(lag) {
  if (!lag.length) { fill(bodyOf("lag"), el("div", { class: "empty" }, "the source does not report partitions; Kafka does")); return; }
  const most = Math.max(1, ...lag.map((one) => one.rows));
  fill(bodyOf("lag"), el("div", { class: "list" }, el("div", { class: "bars" }, lag.map((one) => bar(one.partition, one.rows / most, number(one.rows))))));
}

// Rows of plain values as a table. The columns are the keys for which some row has a value.
function plainTable(title, rows, leave = []) {
  const shown = (value) => (value === null || value === undefined || value === "" ? "–" : typeof value === "number" ? number(value) : typeof value === "object" ? Object.entries(value).map(([key, one]) => `${key} ${one}`).join(", ") || "–" : String(value));
  const keys = [...new Set(rows.flatMap((row) => Object.keys(row)))].filter((key) => !leave.includes(key) && rows.some((row) => shown(row[key]) !== "–"));
  if (!rows.length) return [];
  const words = (key) => (rows.some((row) => typeof row[key] === "string" && row[key]) ? "words" : null);
  return [el("h3", {}, title), el("div", { class: "scroll" }, el("table", {}, el("tr", {}, keys.map((key) => el("th", { class: words(key) }, key.replace(/_s$/, ", s").replaceAll("_", " ")))), rows.map((row) => el("tr", {}, keys.map((key) => el("td", { class: words(key) }, shown(row[key])))))))];
}

export function drawFleet(fleet) {
  const panel = document.getElementById("panel-fleet"), ago = fleet.centre.last_step_s_ago;
  panel.hidden = false;
  panel.querySelector(".hint").textContent = fleet.centre.pid === null ? "no centre is running; hosts go on by themselves" : "the centre is running" + (ago === null || ago === undefined ? "" : `, last step ${seconds(ago)} ago`);
  fill(panel.querySelector(".body"), plainTable("Regions", fleet.regions), plainTable("Hosts", fleet.hosts, ["pid"]), plainTable("Applications", fleet.applications, ["running_on", "lease_holder"]),
    fleet.events.length ? [el("h3", {}, "Events"), el("div", { class: "list" }, [...fleet.events].reverse().map((event) => el("div", {}, el("time", {}, seconds(event.s_ago) + " ago"), el("b", {}, event.event), `${event.subject} ${event.text}`)))] : []);
}

export function drawNotes(notes) {
  if (!notes.length) { fill(bodyOf("notes"), el("div", { class: "empty" }, "nothing to report")); return; }
  fill(bodyOf("notes"), el("div", { class: "list" }, [...notes].reverse().map((note) => el("div", {}, el("time", {}, clock(note.time_s)), el("b", {}, note.event), note.text))));
}

const JUDGED_WITHIN_S = 300; // after it is due: its rows have to be committed

export function drawDetail(detail, last) {
  const decision = detail.decision, answers = detail.receipt ? detail.receipt.actions : [];
  const section = (name, ...children) => children.flat().length ? [el("h3", {}, name), ...children] : [];
  const list = (lines) => lines.length ? [el("ul", {}, lines.map((line) => el("li", {}, line)))] : [];
  const rows = decision.predictions.map((one) => {
    const came = detail.outcomes.find(({ prediction }) => prediction.application === one.application && (prediction.interval_s ?? null) === (one.interval_s ?? null));
    return [one.application, seconds(one.p99_s), came ? seconds(came.p99_s) : one.due_s > last ? "not due yet" : one.due_s + JUDGED_WITHIN_S > last ? "not compared yet" : "not compared", percent(one.late_share), came ? percent(came.late_share) : "", clock(one.due_s)];
  });
  fill(document.querySelector("#detail .content"),
    el("h2", {}, decision.action_texts.length ? decision.action_texts.join(", ") : "Held"),
    el("p", { class: "hint" }, `${clock(detail.time_s, true)}, step ${decision.step}`),
    ...section("Reasons", list(decision.reasons.map((reason) => reason.text))),
    ...section("Held back", list(decision.held.map((held) => `${held.guard}: ${held.reason.text}`))),
    ...section("Receipt", list(answers.map((one, place) => `${decision.action_texts[place] ?? one.action.kind}: ${one.outcome}${one.note ? " (" + one.note + ")" : ""}`))),
    ...section("Prediction and outcome", rows.length ? [el("div", { class: "scroll" }, el("table", {}, el("tr", {}, ["application", "p99 predicted", "measured", "over the objective", "measured", "due"].map((head) => el("th", {}, head))), rows.map((row) => el("tr", {}, row.map((cell) => el("td", {}, cell))))))] : []),
    ...section("Advice", list(decision.advice.map((one) => one.reason.text))),
    ...section("Not trusted", list(decision.assessments.filter((one) => !one.usable && one.reason).map((one) => `${one.application}: ${one.reason.text}`))),
    ...section("Abnormal samples excluded from learning", list(decision.set_aside.map((reason) => reason.text))));
  const dialog = document.getElementById("detail");
  if (!dialog.open) dialog.showModal();
}
