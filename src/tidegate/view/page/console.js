// The page: what is selected, where the data comes from, and when it is redrawn.

import { el, fill, clock, percent } from "./format.js";
import { onZoom } from "./charts.js";
import { drawComparison } from "./compare.js";
import { drawApplications, drawClasses, drawCost, drawDetail, drawFleet, drawLag, drawNotes, drawOperators, drawSeries, drawTiles, drawTimeline } from "./panels.js";

const POINTS = 600;
const AGAIN_MS = 15000;
const FLEET_MS = 5000;
const byId = (name) => document.getElementById(name);
const embedded = byId("data") ? JSON.parse(byId("data").textContent) : null;
const state = { journal: null, application: null, range: 900, zoom: null, overview: null, series: null, moments: [], span: [0, 1], stream: null, turn: 0, drawn: 0, token: sessionStorage.getItem("tidegate-token") ?? "" };
window.tidegate = state; // for tests, and for the curious

// data

async function ask(name, parameters = {}) {
  if (embedded) return fromReport(name, parameters);
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined));
  const answer = await fetch(`api/v1/${name}?${query}`, { headers: state.token ? { authorization: "Bearer " + state.token } : {} });
  const body = await answer.json();
  if (answer.status === 401) byId("steering").showModal();
  if (!answer.ok) throw new Error(body.error ?? answer.statusText);
  return body;
}

function fromReport(name, parameters) {
  if (name === "journals") return embedded.journals.map((one) => one.overview);
  const journal = embedded.journals.find((one) => one.overview.journal === parameters.journal) ?? embedded.journals[0];
  if (name.startsWith("decisions/")) {
    const found = journal.decisions[name.slice(10)];
    if (!found) throw new Error("this report contains only the decisions that acted");
    return found;
  }
  const found = journal[name];
  return ["series", "operators", "lag"].includes(name) ? found[parameters.application] : found;
}

function span() {
  const { first_s: first, last_s: last } = state.overview;
  if (first === null) return [0, 1];
  if (state.zoom) return state.zoom;
  const wide = state.range && !embedded ? Math.min(state.range, Math.max(last - first, 60)) : Math.max(last - first, 1);
  return [last - wide, last];
}

const now = () => state.overview.applications.find((one) => one.application === state.application) ?? null;

async function reload() {
  const turn = ++state.turn; // answers may arrive in another order than they were asked for
  const [start, end] = (state.span = span());
  const range = { journal: state.journal, application: state.application, start, end };
  const [series, moments, operators, classes, cost, lag] = await Promise.all([
    state.application ? ask("series", { ...range, points: POINTS }) : null,
    ask("timeline", range), state.application ? ask("operators", range) : [], ask("classes", range), ask("cost", range), state.application ? ask("lag", range) : []]);
  if (turn !== state.turn) return;
  state.series = series;
  state.moments = moments;
  drawAll();
  drawOperators(operators, now());
  drawClasses(classes);
  drawCost(cost, state.overview.pool);
  drawLag(lag);
  state.drawn = Date.now();
}

function drawAll() {
  drawBar();
  drawTiles(state.overview, now());
  drawApplications(state.overview.applications, state.application, (name) => choose(state.journal, name).catch(problem));
  if (state.series) drawSeries({ ...state.series, start_s: state.span[0], end_s: state.span[1] });
  drawTimeline(state.moments, state.span[0], state.span[1], openMoment);
  drawNotes(state.overview.notes);
}

// News: single steps are appended to short ranges; long ranges are reloaded now and then.
function takeNews(news) {
  const before = state.overview.last_s;
  state.overview = news.overview;
  if (news.series && state.series && !state.zoom) {
    state.span = span();
    if (state.series.bucket_s <= 2) {
      const own = state.series, last = own.time_s[own.time_s.length - 1] ?? -Infinity;
      news.series.time_s.forEach((time, place) => {
        if (time <= last) return;
        own.time_s.push(time);
        for (const name of Object.keys(own.columns)) own.columns[name].push(news.series.columns[name]?.[place] ?? null);
      });
      while (own.time_s.length && own.time_s[0] < state.span[0]) {
        own.time_s.shift();
        for (const column of Object.values(own.columns)) column.shift();
      }
      for (const moment of news.moments) addMoment(moment);
    }
  }
  drawAll();
  if (before === null || (!state.zoom && Date.now() - state.drawn > AGAIN_MS)) reload().catch(problem);
}

function addMoment(moment) {
  const last = state.moments[state.moments.length - 1];
  if (last && moment.number <= last.number) return;
  if (last && last.kind === moment.kind && moment.kind !== "acted" && last.title === moment.title && last.code === moment.code) {
    last.end_s = moment.end_s;
    last.steps += moment.steps;
  } else state.moments.push(moment);
}

// Server-sent events, read with fetch: an EventSource cannot send a token.
async function follow() {
  if (embedded) return;
  state.stream?.abort();
  const stream = (state.stream = new AbortController());
  const query = new URLSearchParams({ journal: state.journal, ...(state.application ? { application: state.application } : {}) });
  while (!stream.signal.aborted) {
    try {
      const answer = await fetch(`api/v1/events?${query}`, { signal: stream.signal, headers: state.token ? { authorization: "Bearer " + state.token } : {} });
      if (!answer.ok) throw new Error(answer.statusText);
      state.lost = false;
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        text += value;
        const parts = text.split("\n\n");
        text = parts.pop();
        for (const part of parts) {
          const data = part.split("\n").filter((line) => line.startsWith("data: ")).map((line) => line.slice(6)).join("");
          if (data) takeNews(JSON.parse(data));
        }
      }
    } catch (error) {
      if (stream.signal.aborted) return;
    }
    state.lost = true;
    drawBar();
    await new Promise((wake) => setTimeout(wake, 2000));
  }
}

// time

function look(start, end) {
  const { first_s: first, last_s: last } = state.overview;
  if (first === null) return;
  const wide = Math.max(5, Math.min(end - start, last - first)), from = Math.max(first, Math.min(start, last - wide));
  state.zoom = [from, from + wide];
  remember();
  reload().catch(problem);
}

function shift(part) {
  const [start, end] = span(), by = (end - start) * part;
  if (end + by >= state.overview.last_s && part > 0) toNewest();
  else look(start + by, end + by);
}

function toNewest() {
  state.zoom = null;
  remember();
  reload().catch(problem);
}

// the bar

function drawBar() {
  const live = byId("live"), mode = byId("mode"), overview = state.overview;
  const age = overview.last_s === null ? Infinity : Date.now() / 1000 - overview.last_s;
  const [words, kind] = embedded ? ["report", ""] : state.lost ? ["no connection", "off"]
    : overview.indexed < 1 ? [`reading ${percent(overview.indexed, 0)}`, "hold"] : age < Math.max(10, 5 * overview.interval_s) ? ["live", "on"] : [`ended ${clock(overview.last_s, true)}`, ""];
  live.textContent = words;
  live.className = "badge " + kind;
  mode.textContent = overview.paused ? "paused" : overview.mode ?? "";
  mode.hidden = !mode.textContent;
  mode.className = "badge " + (overview.paused || overview.mode === "off" ? "off" : overview.mode === "apply" ? "on" : "hold");
  const zoomed = byId("zoomed"), far = state.zoom && state.zoom[1] - state.zoom[0] > 86400;
  zoomed.hidden = !state.zoom;
  if (state.zoom) zoomed.textContent = `${clock(state.zoom[0], far)} – ${clock(state.zoom[1], far)} ×`;
  byId("steer").hidden = !overview.steerable;
  const row = byId("recommendation");
  row.hidden = !overview.recommendation.length;
  row.firstElementChild.textContent = overview.recommendation.join(", ");
}

function problem(error) {
  const place = byId("problem");
  place.textContent = error ? error.message : "";
  place.hidden = !error;
}

async function openMoment(moment) {
  try {
    drawDetail(await ask(`decisions/${moment.number}`, { journal: state.journal }), state.overview.last_s);
    problem(null);
  } catch (error) { problem(error); }
}

// A fleet's folder has its own panel. A new fleet has no journal yet; then only that panel is shown.
async function watchFleet() {
  if (embedded) return;
  const answer = await fetch("api/v1/fleet", { headers: state.token ? { authorization: "Bearer " + state.token } : {} });
  const body = await answer.json();
  if (answer.ok && body === null) return;
  if (answer.ok) drawFleet(body);
  else problem(new Error(body.error));
  if (!state.journal) choose(null, null).catch(problem);
  setTimeout(() => watchFleet().catch(() => {}), FLEET_MS);
}

async function choose(journal, application) {
  const journals = await ask("journals");
  document.documentElement.toggleAttribute("data-bare", !journals.length);
  if (!journals.length) { state.drawn = Date.now(); return; }
  state.overview = journals.find((one) => one.journal === journal) ?? journals[0];
  state.journal = state.overview.journal;
  const names = state.overview.applications.map((one) => one.application);
  state.application = names.includes(application) ? application : names[0] ?? null;
  fill(byId("journal"), journals.map((one) => el("option", { value: one.journal }, one.journal)));
  byId("journal").value = state.journal;
  byId("journal").parentElement.hidden = journals.length < 2;
  fill(byId("application"), names.map((name) => el("option", { value: name }, name)));
  if (state.application) byId("application").value = state.application;
  document.title = `${state.application ?? state.journal} – Tidegate`;
  remember();
  await reload();
  problem(null);
  follow();
}

function remember() {
  if (!embedded) history.replaceState(null, "", "?" + new URLSearchParams({ journal: state.journal, ...(state.application ? { application: state.application } : {}), range: state.range, ...(state.zoom ? { start: state.zoom[0].toFixed(1), end: state.zoom[1].toFixed(1) } : {}) }));
}

// steering

async function steer(button) {
  const answer = byId("answer");
  state.token = byId("token").value;
  sessionStorage.setItem("tidegate-token", state.token);
  localStorage.setItem("tidegate-who", byId("who").value);
  const body = { act: button.dataset.act, who: byId("who").value.trim() || "somebody" };
  if (body.act === "mode") body.mode = button.dataset.mode;
  if (body.act === "bounds") for (const [key, name] of [["min", "least"], ["max", "most"]]) if (byId(name).value) body[key] = Number(byId(name).value);
  if (body.act === "apply") body.step = state.overview.step;
  try {
    const response = await fetch("api/v1/steer", { method: "POST", headers: { "content-type": "application/json", authorization: "Bearer " + state.token }, body: JSON.stringify(body) });
    const found = await response.json();
    answer.textContent = response.ok ? `requested: ${found.accepted}` : found.error;
    answer.className = response.ok ? "good-text" : "bad-text";
  } catch (error) { answer.textContent = error.message; answer.className = "bad-text"; }
}

// theme

function theme(name) {
  document.documentElement.dataset.theme = name;
  if (state.overview) drawAll();
  if (embedded && embedded.comparison && state.drawn) drawComparison(embedded.comparison);
}

const asked = new URLSearchParams(location.search);
const dark = matchMedia("(prefers-color-scheme: dark)");
const saved = () => { try { return localStorage.getItem("tidegate-theme"); } catch { return null; } };
theme(asked.get("theme") ?? saved() ?? (dark.matches ? "dark" : "light"));
dark.addEventListener("change", () => { if (!saved()) theme(dark.matches ? "dark" : "light"); });
byId("theme").addEventListener("click", () => {
  const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  localStorage.setItem("tidegate-theme", next);
  theme(next);
});
state.range = Number(asked.get("range") ?? 900);
byId("range").value = String(state.range);
byId("range").addEventListener("change", () => { state.range = Number(byId("range").value); toNewest(); });
if (asked.has("start") && asked.has("end") && Number(asked.get("end")) > Number(asked.get("start"))) state.zoom = [Number(asked.get("start")), Number(asked.get("end"))];
byId("earlier").addEventListener("click", () => shift(-0.5));
byId("later").addEventListener("click", () => shift(0.5));
byId("zoomed").addEventListener("click", toNewest);
onZoom(look);
byId("journal").addEventListener("change", () => { state.zoom = null; choose(byId("journal").value, state.application).catch(problem); });
byId("application").addEventListener("change", () => choose(state.journal, byId("application").value).catch(problem));
byId("steer").addEventListener("click", () => {
  const pool = state.overview.pool;
  if (pool) { byId("least").value = pool.least ?? ""; byId("most").value = pool.most ?? ""; }
  byId("steering").showModal();
});
byId("token").value = state.token;
byId("who").value = localStorage.getItem("tidegate-who") ?? "";
for (const button of document.querySelectorAll("[data-act]")) button.addEventListener("click", () => steer(button));
for (const dialog of document.querySelectorAll("dialog")) {
  dialog.querySelector(".close").addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
}
// Modules run once the document is loaded.
if (embedded && embedded.comparison) drawComparison(embedded.comparison);
if (embedded && !embedded.journals.length) {
  document.documentElement.toggleAttribute("data-bare", true);
  state.drawn = Date.now();
} else choose(asked.get("journal"), asked.get("application")).catch(problem);
watchFleet().catch(() => {});
