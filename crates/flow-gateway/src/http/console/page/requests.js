// The last failures and the slowest requests, each with where its time went.

import { html, show, table } from "./dom.js";
import { showRequest } from "./logs.js";
import { bytes, clock, count, time } from "./units.js";

/** Which requests are open, so that new ones do not close them. */
const open = new Set();

/** When each part of a request began, and how long it took, as bars. */
const waterfall = (request) => {
  const whole = Math.max(request.took_ms, 0.001);
  const bar = (after, took, kind) => {
    const inner = html("span", { class: "bar " + kind });
    inner.style.left = `${Math.min(99.5, (100 * after) / whole)}%`;
    inner.style.width = `${Math.max(0.5, Math.min(100, (100 * took) / whole))}%`;
    return html("span", { class: "track" }, inner);
  };
  const row = (name, after, took, kind) => [name, bar(after, took, kind), time(after), time(took)];
  const rows = [row("whole request", 0, request.took_ms, request.failure ? "bad" : "whole")];
  if (request.waited_ms > 0) rows.push(row("waiting to be admitted", 0, request.waited_ms, "waiting"));
  for (const node of request.nodes) {
    rows.push(row(node.name, request.waited_ms + node.after_ms, node.took_ms, node.failed ? "bad" : ""));
  }
  const made = table("Where the time went", [["Part"], ["Time line"], ["Begins after", true], ["Takes", true]], rows);
  made.classList.add("waterfall");
  return made;
};

const facts = (request) => {
  const all = [
    ["Request id", html("code", {}, request.id || "none")],
    ["Protocol", request.protocol],
    ["Client", request.client],
    ["API key", request.key],
    ["Documents", count(request.documents)],
    ["Size", bytes(request.bytes)],
    ["Trace", request.trace_id && html("code", {}, request.trace_id)],
    ["Executor", request.failure?.executor],
    ["Code", request.failure?.code],
  ];
  return html("dl", { class: "facts" },
    all.filter(([, value]) => value).map(([name, value]) => html("div", {}, html("dt", {}, name), html("dd", {}, value))));
};

let logs = false;

/** Says whether the lines of a request may be read. */
export const mayReadLogs = (may) => { logs = may; };

const logButton = ({ id }) =>
  logs && id ? html("button", { type: "button", class: "log-of", onclick: () => showRequest(id) }, "Its log lines") : null;

const entry = (list, request) => {
  const name = `${list} ${request.id} ${request.ended_s}`;
  const made = html("details", { class: "request", open: open.has(name) });
  const fillIn = () => {
    if (made.childElementCount > 1) return;
    if (request.failure) made.append(html("pre", { class: "cause" }, request.failure.cause));
    made.append(...[facts(request), logButton(request), waterfall(request)].filter(Boolean));
  };
  made.append(html("summary", {},
    html("span", { class: "when", title: new Date(request.ended_s * 1000).toISOString() }, clock(request.ended_s)),
    html("span", { class: "what" }, html("code", {}, request.endpoint || "default endpoint")),
    html("span", { class: "took" }, time(request.took_ms)),
    html("span", { class: "why" }, request.failure ? `${request.failure.code}: ${request.failure.cause}` : "")));
  made.addEventListener("toggle", () => {
    if (made.open) fillIn();
    open[made.open ? "add" : "delete"](name);
  });
  if (made.open) fillIn();
  return made;
};

/** Names what is shown, so that a list that did not change is not made anew under the reader. */
const signs = new WeakMap();

const showList = (parent, list, requests, none) => {
  const sign = requests.map((it) => it.id + it.ended_s).join();
  if (signs.get(parent) === sign) return;
  signs.set(parent, sign);
  show(parent, requests.length > 0 ? requests.map((it) => entry(list, it)) : html("p", { class: "hint" }, none));
};

/** Shows what `requests` reports. */
export const showRequests = (places, report, withoutClients) => {
  const failures = withoutClients ? report.failures.filter((it) => !it.failure?.is_clients) : report.failures;
  showList(places.failures, "failure", failures, "No request has failed since the gateway started.");
  showList(places.slow, "slow", report.slow, "No requests in the last hour.");
};
