// Ties the page together: requests data while the page is visible, and shows it.

import { showFlow, showKnown } from "./about.js";
import { data, Failed, keep, key } from "./api.js";
import { showHistory } from "./charts.js";
import { byId, html, show, tabs } from "./dom.js";
import { draw, replicas } from "./graph.js";
import { allowLogs, showLogs, startLogs } from "./logs.js";
import { showFigures, showNodes } from "./nodes.js";
import { allowActions, showFile, showProcesses, startProcesses } from "./processes.js";
import { mayReadLogs, showRequests } from "./requests.js";
import { offer, start } from "./try.js";
import { clock } from "./units.js";

/** How often the page asks: the numbers are those of half a minute. */
const EVERY_MS = 2000;
/** New lines of logs are awaited. */
const LOGS_EVERY_MS = 1000;
/** Charts get a new point in ten seconds. */
const CHARTS_EVERY = 5;
const VIEWS = ["overview", "requests", "logs", "processes", "try", "about"];
const THEMES = ["system", "light", "dark"];

const state = { view: "overview", paused: false, asking: false, round: 0, structure: "", graph: null, series: "", timer: null, rights: null };

// Dark or light.
const useTheme = (theme) => {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  byId("theme").textContent = `Theme: ${theme}`;
};

const startTheme = () => {
  const stored = () => localStorage.getItem("flow-theme") ?? "system";
  useTheme(stored());
  byId("theme").addEventListener("click", () => {
    const next = THEMES[(THEMES.indexOf(stored()) + 1) % THEMES.length];
    localStorage.setItem("flow-theme", next);
    useTheme(next);
  });
};

// The key.
const askForKey = (why) => {
  byId("key-why").textContent = why;
  if (!byId("key-form").hidden) return;
  byId("key-form").hidden = false;
  for (const view of VIEWS) byId(view).hidden = true;
  byId("tabs").hidden = true;
  byId("key").focus();
};

const showViews = () => {
  byId("key-form").hidden = true;
  byId("tabs").hidden = false;
  byId("forget").hidden = key() === null;
  for (const view of VIEWS) byId(view).hidden = view !== state.view;
};

const startKey = () => {
  byId("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    keep(byId("key").value.trim());
    byId("key").value = "";
    state.structure = "";
    refresh();
  });
  byId("forget").addEventListener("click", () => {
    keep(null);
    location.reload();
  });
};

// Data.
const showStructure = async (overview) => {
  const structure = JSON.stringify([overview.started_s, overview.nodes.map((it) => [it.name, replicas(it).length])]);
  if (structure === state.structure) return;
  const [flow, known, rights] = await Promise.all([data("flow"), data("endpoints"), data("rights")]);
  state.rights = rights;
  allowActions(rights.actions);
  allowLogs(rights.logs);
  mayReadLogs(rights.logs.is_allowed);
  state.graph = draw(byId("graph"), flow.drawing);
  const select = byId("series");
  show(select, html("option", { value: "" }, "the whole flow"), overview.nodes.map((it) => html("option", { value: it.name }, it.name)));
  select.value = state.series;
  showFlow(flow);
  showKnown(known);
  offer(known.endpoints);
  // What an executor that has just started offers is not known yet.
  state.structure = known.silent.length > 0 ? "" : structure;
};

const showCharts = async () => {
  const node = state.series ? `?node=${encodeURIComponent(state.series)}` : "";
  const report = await data("history" + node);
  showHistory({ rate: byId("chart-rate"), latency: byId("chart-latency"), table: byId("chart-table") }, report);
};

const showLists = async () => {
  const report = await data("requests");
  showRequests({ failures: byId("failures"), slow: byId("slow") }, report, byId("ours").checked);
  const badge = byId("failure-count");
  badge.hidden = report.failures.length === 0;
  badge.textContent = String(report.failures.length);
  badge.title = `${report.failures.length} failures are kept`;
};

const showOverview = (overview) => {
  const name = overview.name ?? "flow";
  byId("name").textContent = name;
  document.title = `${name} – flow console`;
  showFigures(byId("figures"), overview);
  state.graph?.(overview.nodes);
  showNodes(byId("nodes"), overview.nodes);
};

let lastStatus = "";

/** Says how the flow does, to screen readers only if it changed. */
const say = (text, kind) => {
  const status = byId("status");
  if (lastStatus !== text) status.textContent = lastStatus = text;
  status.className = kind;
};

const sum = (overview) => {
  const names = (nodes) => nodes.map((it) => it.name).join(", ");
  const isLost = (replica) => replica.state === "unreachable";
  const lost = overview.nodes.filter((node) => replicas(node).every(isLost) && replicas(node).length > 0);
  const partly = overview.nodes.filter((node) => replicas(node).some(isLost));
  const late = overview.nodes.filter((node) => !node.was_ready);
  if (lost.length > 0) return [`${names(lost)} cannot be reached`, "bad"];
  if (partly.length > 0) return [`not all replicas of ${names(partly)} can be reached`, "warn"];
  if (late.length > 0) return [`waiting for ${names(late)}`, "warn"];
  if (overview.recent.failed > 0) return ["running, with errors", "warn"];
  return ["running", "good"];
};

const problem = (text) => {
  byId("problem").hidden = text === "";
  byId("problem").textContent = text;
};

const ask = async () => {
  const overview = await data("overview");
  showViews();
  await showStructure(overview);
  showOverview(overview);
  if (state.round % CHARTS_EVERY === 0 && state.view === "overview") await showCharts();
  if (state.round % CHARTS_EVERY === 0 || state.view === "requests") await showLists();
  if (state.view === "processes" && state.rights.actions.is_allowed) {
    showProcesses(await data("processes"), overview.nodes);
    await showFlowFile();
  }
  if (state.view === "logs" && state.rights.logs.is_allowed) await showLogs();
  state.round += 1;
  say(...sum(overview));
  problem("");
  byId("footer").textContent = `As of ${clock(overview.now_s)}, from the gateway at ${location.host}.`;
};

/** A flow that was not started from a file has none to show. A check that takes long is asked for again. */
const showFlowFile = async () => {
  try {
    showFile(await data("flow-file"));
  } catch (error) {
    if (!(error instanceof Failed) || ![409, 429, 503].includes(error.status)) throw error;
    if (error.status === 409) showFile({ state: "followed" });
  }
};

const refresh = async () => {
  clearTimeout(state.timer);
  if (state.asking) return;
  state.asking = true;
  let wait = state.view === "logs" ? LOGS_EVERY_MS : EVERY_MS;
  try {
    await ask();
  } catch (error) {
    const status = error instanceof Failed ? error.status : 0;
    if (status === 401) {
      say("locked", "warn");
      askForKey(key() === null ? "" : error.message);
      wait = null;
    } else {
      say(status === 0 ? "the gateway does not answer" : "cannot show the flow", "bad");
      problem(status === 0 ? "The gateway does not answer. The page asks again." : error.message);
    }
  }
  state.asking = false;
  if (wait !== null && !state.paused && !document.hidden) state.timer = setTimeout(refresh, wait);
};

const now = () => {
  state.round = 0;
  refresh();
};

const startViews = () => {
  const select = tabs(byId("tabs"), (tab) => {
    state.view = tab.getAttribute("aria-controls");
    history.replaceState(null, "", "#" + state.view);
    showViews();
    now();
  });
  const wanted = location.hash.slice(1);
  if (VIEWS.includes(wanted)) {
    state.view = wanted;
    for (const tab of byId("tabs").children) {
      const chosen = tab.id === "tab-" + wanted;
      tab.setAttribute("aria-selected", String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
    }
  }
  return select;
};

startTheme();
startKey();
startViews();
start();
startLogs();
startProcesses();
byId("series").addEventListener("change", (event) => {
  state.series = event.target.value;
  now();
});
byId("ours").addEventListener("change", now);
byId("chart-table").parentElement.addEventListener("toggle", now);
byId("pause").addEventListener("click", () => {
  state.paused = !state.paused;
  byId("pause").setAttribute("aria-pressed", String(state.paused));
  byId("pause").textContent = state.paused ? "Go on" : "Pause";
  now();
});
// Charts are as wide as the window allows.
let resized = null;
window.addEventListener("resize", () => {
  clearTimeout(resized);
  resized = setTimeout(now, 200);
});
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && !state.paused) now();
});
for (const view of VIEWS) byId(view).hidden = view !== state.view;
refresh();
