// Keeps the page as the chain is: server-sent events say when to fetch it again, htmx puts it in place. Draws charts and replays disputes.
"use strict";

const charts = new Map(); // element -> its plot
const opened = new Set(); // ids of <details> that the reader opened
let shownStep = null; // of a dispute; null: all of it

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function draw(element) {
  const data = JSON.parse(element.dataset.chart);
  const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line") }, ticks: { stroke: colour("--line") } };
  const lines = data.series.map((each, n) => ({
    label: each.label, stroke: colour(n ? "--orange" : "--blue"), width: 2, spanGaps: true, points: { show: each.values.length < 60 },
  }));
  const options = {
    width: element.clientWidth, height: 220, axes: [data.time ? axis : { ...axis, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500] }, { ...axis, size: 60 }],
    scales: { x: { time: data.time, range: (plot, from, to) => { const one = data.x[0] === data.x.at(-1), around = data.time ? 43200 : 1; return one ? [data.x[0] - around, data.x[0] + around] : [from, to]; } } },
    series: [{ label: data.time ? "time" : "round" }, ...lines], cursor: { drag: { x: false, y: false } },
  };
  element.replaceChildren();
  charts.set(element, new uPlot(options, [data.x, ...data.series.map((each) => each.values)], element));
}

function drawAll() {
  for (const [element, plot] of charts) {
    if (!element.isConnected) { plot.destroy(); charts.delete(element); }
  }
  document.querySelectorAll(".chart").forEach(draw);
}

function showStep() {
  const bar = document.getElementById("replay");
  if (!bar) return;
  bar.hidden = false;
  const last = Number(bar.dataset.steps);
  const step = shownStep === null ? last : Math.min(Math.max(shownStep, 1), last);
  document.querySelectorAll("[data-asked]").forEach((row) => {
    row.classList.toggle("later", Number(row.dataset.asked) > step);
    row.classList.toggle("unanswered", Number(row.dataset.answered) > step);
    row.classList.toggle("here", shownStep !== null && [row.dataset.asked, row.dataset.answered].includes(String(step)));
  });
  let text = "";
  document.querySelectorAll("[data-step]").forEach((row) => {
    const is = shownStep !== null && Number(row.dataset.step) === step;
    row.classList.toggle("later", Number(row.dataset.step) > step);
    if (is) { row.setAttribute("aria-current", "step"); text = row.firstChild.textContent.trim(); } else row.removeAttribute("aria-current");
  });
  document.getElementById("replayed").textContent = shownStep === null ? `${last} steps` : `Step ${step} of ${last}: ${text}`;
}

let playing = null;
function play(on) {
  clearInterval(playing);
  playing = on ? setInterval(() => {
    const last = Number(document.getElementById("replay")?.dataset.steps || 0);
    if (shownStep >= last) return play(false);
    shownStep += 1;
    showStep();
  }, 900) : null;
}

document.addEventListener("click", (event) => {
  const go = event.target.closest?.("[data-go]")?.dataset.go;
  if (!go) return;
  const last = Number(document.getElementById("replay").dataset.steps);
  play(false);
  if (go === "first") shownStep = 1;
  if (go === "back") shownStep = Math.max(1, (shownStep ?? last) - 1);
  if (go === "on") shownStep = Math.min(last, (shownStep ?? 0) + 1);
  if (go === "all") shownStep = null;
  if (go === "play") { shownStep = 0; play(true); }
  showStep();
});

function ready() {
  opened.forEach((id) => { const element = document.getElementById(id); if (element) element.open = true; });
  drawAll();
  showStep();
}

document.addEventListener("toggle", (event) => {
  if (event.target.id && event.target.isConnected) opened[event.target.open ? "add" : "delete"](event.target.id);
}, true);

let focused = null; // what has the focus while the page is put in place again: a link or a button, by where it leads
document.addEventListener("htmx:beforeSwap", () => {
  const at = document.activeElement;
  const live = document.getElementById("live");
  focused = !at || !live?.contains(at) ? null
    : at.dataset.go ? `[data-go="${at.dataset.go}"]` : at.getAttribute("href") ? `#live a[href="${CSS.escape(at.getAttribute("href"))}"]`
    : at.getAttribute("aria-label") ? `[aria-label="${CSS.escape(at.getAttribute("aria-label"))}"]` : null;
});
document.addEventListener("htmx:afterSettle", () => {
  ready();
  if (focused) document.querySelector(focused)?.focus({ preventScroll: true });
  focused = null;
});
document.addEventListener("DOMContentLoaded", () => {
  ready();
  let waiting = null; // at most one fetch a second
  const source = new EventSource("/events");
  const changed = () => {
    waiting ??= setTimeout(() => { waiting = null; document.body.dispatchEvent(new CustomEvent("changed")); }, 1000);
  };
  source.addEventListener("changed", changed);
  let broken = false;
  source.addEventListener("error", () => { broken = true; });
  source.addEventListener("open", () => { if (broken) changed(); broken = false; });
  window.addEventListener("pagehide", () => source.close());
});
window.addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
let resized = null;
window.addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(drawAll, 150); });
