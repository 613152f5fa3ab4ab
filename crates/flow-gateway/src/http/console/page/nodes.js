// The numbers of the last half minute: of the flow, and of each executor.

import { html, show, table } from "./dom.js";
import { replicas, state } from "./graph.js";
import { age, count, percent, rate, time } from "./units.js";

const figure = (title, value, more, kind) =>
  html("div", { class: kind }, html("dt", {}, title), html("dd", {}, value, html("small", {}, more ?? "")));

/** The figures of the whole flow. */
export const showFigures = (parent, overview) => {
  const { recent } = overview;
  show(parent,
    figure("Requests", rate(recent.per_second), `${count(recent.requests)} in ${Math.round(recent.seconds)} s`),
    figure("Latency, median", time(recent.p50_ms), "successful requests"),
    figure("Latency, 99 %", time(recent.p99_ms), "successful requests"),
    figure("Errors", rate(recent.failed_per_second), `${percent(recent.failed, recent.requests)} of requests`,
      recent.failed > 0 ? "bad" : ""),
    figure("In progress", count(overview.in_progress), `of ${count(overview.in_progress_max)} at most`),
    figure("Up for", age(overview.now_s - overview.started_s), `flow ${overview.version}`));
};

const stateOf = (node) => {
  const [kind, word] = state(node);
  return html("span", { class: "state " + kind }, word);
};

const replica = (it) =>
  html("li", {}, html("span", { class: "state " + { ready: "good", unreachable: "bad" }[it.state] },
    it.state.replace("_", " ")), " ", html("code", {}, it.address), ` ${count(it.in_progress)} in progress`);

/** Which lists of replicas are open, so that new numbers do not close them. */
const open = new Set();

const list = (node) => {
  const all = replicas(node);
  const several = node.shards.length > 1;
  const parts = node.shards.map((shard, at) => [several ? `shard ${at}` : null, shard]);
  if (node.before) parts.unshift(["before", node.before]);
  if (node.after) parts.push(["after", node.after]);
  const toggle = (event) => (event.target.open ? open.add(node.name) : open.delete(node.name));
  return html("details", { open: open.has(node.name), ontoggle: toggle },
    html("summary", {}, `${count(all.length)} ${all.length === 1 ? "replica" : "replicas"}`),
    parts.map(([title, members]) => [title && html("b", {}, title), html("ul", {}, members.map(replica))]));
};

const COLUMNS = [["Executor"], ["State"], ["Replicas"], ["Requests", true], ["Median", true], ["99 %", true],
  ["Errors", true], ["In progress", true]];

/** A row for each executor. */
export const showNodes = (parent, nodes) => {
  // A reader in the middle of the table must not lose the focus.
  const focused = parent.contains(document.activeElement) ? [...parent.querySelectorAll("summary")].indexOf(document.activeElement) : -1;
  const rows = nodes.map((node) => {
    const { recent } = node;
    const inProgress = replicas(node).reduce((sum, it) => sum + it.in_progress, 0);
    return [node.name, stateOf(node), list(node), rate(recent.per_second), time(recent.p50_ms), time(recent.p99_ms),
      rate(recent.failed_per_second), count(inProgress)];
  });
  show(parent, table("Executors, over the last half minute", COLUMNS, rows, "The flow has no executors."));
  if (focused >= 0) parent.querySelectorAll("summary")[focused]?.focus();
};
