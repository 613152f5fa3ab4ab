// The lines of the logs of all processes, to follow and to filter. They come as text and are inserted as text.

import { data, Failed } from "./api.js";
import { byId, html, show } from "./dom.js";

/** Entries that the page keeps; older ones leave it. */
const ENTRIES_MAX = 1000;
/** A line has the time at which it was read, and may come into its file as much later. */
const OVERLAP_US = 2_000_000;
/** Wait after a key is pressed in a filter. */
const TYPING_MS = 250;

const FILTERS = { process: "log-process", level: "log-level", text: "log-text", request: "log-request" };

const state = { entries: [], known: new Set(), isCut: false, since: null, round: 0, follows: true, typing: null, processes: "" };

const name = (entry) => [entry.at_us, entry.process, entry.is_note, entry.text].join("\u0000");

const at = (entry) => new Date(entry.at_us / 1000).toISOString().slice(11, 23);

/** What the columns say already. */
const PREFIX = /^\d{4}-\d\d-\d\dT[\d:.]+Z\s+(?:TRACE|DEBUG|INFO|WARN|ERROR)\s+/;

const row = (entry) => html("li", { class: "entry " + (entry.level ?? "") },
  html("time", { class: "when", datetime: new Date(entry.at_us / 1000).toISOString() }, at(entry)),
  html("span", { class: "who" }, entry.process),
  html("span", { class: "level" }, entry.is_note ? "note" : entry.level ?? ""),
  html("span", { class: "said" }, entry.text.replace(PREFIX, "")));

const chosen = () => Object.entries(FILTERS).map(([key, id]) => [key, byId(id).value.trim()]).filter(([, value]) => value !== "");

const status = (text, kind = "") => {
  const line = byId("log-status");
  if (line.textContent !== text) line.textContent = text;
  line.className = kind || "hint";
};

const offerProcesses = (names) => {
  if (names.join() === state.processes) return;
  state.processes = names.join();
  const executors = names.map((it) => it.split("/")[0]);
  const all = [...new Set([...executors, ...names])].sort();
  const select = byId("log-process");
  const before = select.value;
  show(select, html("option", { value: "" }, "all"), all.map((it) => html("option", { value: it }, it)));
  select.value = all.includes(before) ? before : "";
};

/** Adds entries in the order of their times; returns whether there are new ones. */
const merge = (entries) => {
  const added = entries.filter((entry) => !state.known.has(name(entry)));
  if (added.length === 0) return false;
  const last = state.entries.at(-1)?.at_us ?? 0;
  for (const entry of added) state.known.add(name(entry));
  state.entries.push(...added);
  const isLate = added[0].at_us < last;
  if (isLate) state.entries.sort((a, b) => a.at_us - b.at_us);
  const leaving = state.entries.splice(0, Math.max(0, state.entries.length - ENTRIES_MAX));
  for (const entry of leaving) state.known.delete(name(entry));
  const list = byId("log-lines");
  const isAtEnd = list.scrollHeight - list.scrollTop - list.clientHeight < 40;
  if (isLate || leaving.length >= list.childElementCount) {
    show(list, state.entries.map(row));
  } else {
    for (let removed = 0; removed < leaving.length; removed += 1) list.firstElementChild.remove();
    list.append(...added.slice(-ENTRIES_MAX).map(row));
  }
  if (isAtEnd) list.scrollTop = list.scrollHeight;
  return true;
};

const say = () => {
  const count = state.entries.length;
  const older = state.isCut ? " Others are left out: narrow the filter." : "";
  status(count === 0 ? `No lines match.${older}` : `${count === 1 ? "1 entry" : `${count} entries`}.${older}`);
};

/** Asks for the entries since it last asked, or for all that match after the filter was changed. */
export const showLogs = async () => {
  if (state.since !== null && !state.follows) return;
  const round = state.round;
  const parameters = new URLSearchParams(chosen());
  if (state.since !== null) parameters.set("since_us", String(state.since - OVERLAP_US));
  let found;
  try {
    found = await data("logs?" + parameters);
  } catch (error) {
    // Another page asks at the moment: this one asks again.
    if (error instanceof Failed && error.status === 429) return;
    throw error;
  }
  if (round !== state.round) return;
  if (state.since === null) show(byId("log-lines"));
  // The answer has the newest entries, and does not begin where the last one ended.
  const isApart = found.entries.length > 0 && !state.known.has(name(found.entries[0]));
  state.isCut ||= found.is_cut && isApart;
  state.since = found.searched_us;
  offerProcesses(found.processes);
  merge(found.entries);
  say();
};

const again = () => {
  clearTimeout(state.typing);
  state.round += 1;
  state.entries = [];
  state.isCut = false;
  state.since = null;
  state.known.clear();
  showLogs().catch((error) => status(String(error.message ?? error), "bad"));
};

/** Shows the lines of a request. */
export const showRequest = (id) => {
  for (const filter of Object.values(FILTERS)) byId(filter).value = "";
  byId("log-request").value = id;
  byId("tab-logs").click();
  again();
  byId("log-lines").focus();
};

/** Offers the logs to those who may read them, and says to others why they may not. */
export const allowLogs = ({ is_allowed, why }) => {
  byId("log-view").hidden = !is_allowed;
  byId("log-why").hidden = is_allowed;
  byId("log-why").textContent = why ?? "";
};

/** Makes the filters work. */
export const startLogs = () => {
  byId("log-form").addEventListener("submit", (event) => {
    event.preventDefault();
    again();
  });
  for (const id of [FILTERS.process, FILTERS.level]) byId(id).addEventListener("change", again);
  for (const id of [FILTERS.text, FILTERS.request]) {
    byId(id).addEventListener("input", () => {
      clearTimeout(state.typing);
      state.typing = setTimeout(again, TYPING_MS);
    });
  }
  byId("log-follow").addEventListener("click", () => {
    state.follows = !state.follows;
    byId("log-follow").setAttribute("aria-pressed", String(state.follows));
  });
  byId("log-clear").addEventListener("click", () => {
    for (const filter of Object.values(FILTERS)) byId(filter).value = "";
    again();
  });
};
