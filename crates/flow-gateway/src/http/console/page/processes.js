// The processes of the flow, and what can be done with them by those who may.

import { act } from "./api.js";
import { byId, html, show, table } from "./dom.js";
import { age, bytes, count } from "./units.js";

const PROCESSES = [["Process"], ["State"], ["Process id", true], ["Up for", true], ["Restarts", true], ["Memory", true], ["Action"]];
const EXECUTORS = [["Executor"], ["Replicas"], ["Action"]];
const KINDS = { ready: "good", failed: "bad", "waiting for its restart": "bad" };
const REPLICAS_MAX = 64;

const drawn = { executors: "" };

const status = (text, kind) => {
  byId("action-status").textContent = text;
  byId("action-status").className = kind;
};

/** Asks before anything is changed. */
const confirmed = (title, text, verb) => new Promise((resolve) => {
  const dialog = byId("confirm");
  byId("confirm-title").textContent = title;
  byId("confirm-text").textContent = text;
  byId("confirm-yes").textContent = verb;
  // Not by the event `close`, which may come only after the next question has been asked.
  const answered = new AbortController();
  const { signal } = answered;
  const answer = (yes) => {
    answered.abort();
    dialog.close();
    resolve(yes);
  };
  byId("confirm-yes").addEventListener("click", () => answer(true), { signal });
  byId("confirm-no").addEventListener("click", () => answer(false), { signal });
  dialog.addEventListener("cancel", () => answer(false), { signal });
  dialog.showModal();
  byId("confirm-no").focus();
});

const change = async (question, action, doing) => {
  if (!(await confirmed(...question))) return;
  status(`${doing} …`, "");
  try {
    const { said } = await act(action);
    status([`${doing}: done.`, ...said].join("\n"), "good");
  } catch (error) {
    status(`${doing}: not done. ${error.message ?? error}`, "bad");
  }
};

const GENTLE = "A new process starts first, and the old one ends when its requests are done. One that keeps state in a workspace ends before.";

const restart = (name) =>
  change([`Restart ${name}?`, GENTLE, "Restart"], { action: "restart", name }, `Restarting ${name}`);

const scale = (name, replicas) =>
  change([`Run ${count(replicas)} replicas of ${name}?`, "Each replica takes memory and computing time. The number is kept until the flow is reloaded or started again.", "Scale"],
    { action: "scale", name, replicas }, `Scaling ${name} to ${count(replicas)}`);

const reload = () =>
  change(["Reload the flow file?", "The flow file is read again. Executors whose options differ are replaced.", "Reload"],
    { action: "reload" }, "Reloading the flow file");

const button = (text, label, press) =>
  html("button", { type: "button", "aria-label": label, "data-action": label, onclick: press }, text);

const processRow = (it) => [
  it.name,
  html("span", { class: "state " + (KINDS[it.state] ?? "warn") }, it.state),
  it.pid ?? "–",
  it.uptime_seconds == null ? "–" : age(it.uptime_seconds),
  count(it.restarts),
  it.memory_bytes == null ? "–" : bytes(it.memory_bytes),
  it.node === null ? "" : button("Restart", `Restart ${it.name}`, () => restart(it.name)),
];

/** The executors with the number of replicas in each of their shards. */
const executors = (processes, nodes) => {
  const names = [...new Set(processes.map((it) => it.node).filter((it) => it !== null))];
  return names.map((name) => [name, nodes.find((it) => it.name === name)?.shards[0]?.length ?? 1]);
};

const executorRow = ([name, replicas]) => {
  const input = html("input", { type: "number", min: 1, max: REPLICAS_MAX, value: replicas, "aria-label": `Replicas of ${name}`, "data-replicas": name });
  const apply = () => (input.reportValidity() ? scale(name, input.valueAsNumber) : undefined);
  return [name, input, [button("Scale", `Scale ${name}`, apply), " ", button("Restart all", `Restart all of ${name}`, () => restart(name))]];
};

/** Shows what `processes` reports. */
export const showProcesses = (processes, nodes) => {
  const known = executors(processes, nodes);
  if (JSON.stringify(known) !== drawn.executors) {
    drawn.executors = JSON.stringify(known);
    show(byId("scales"), table("Executors", EXECUTORS, known.map(executorRow), "The flow starts no executors."));
  }
  const place = byId("process-table");
  // A focused button must keep the focus when the numbers change.
  const focused = place.contains(document.activeElement) ? document.activeElement.dataset.action : null;
  show(place, table("Processes", PROCESSES, processes.map(processRow)));
  if (focused) place.querySelector(`[data-action="${CSS.escape(focused)}"]`)?.focus();
};

const FILE_STATES = {
  followed: "",
  changed: "The flow file, or a file that it names, was written after the flow read it. Reload the flow file to apply the change.",
  invalid: "The flow does not follow its file, and runs as it was before:",
};

/** Says how the flow file differs from what the flow follows. */
export const showFile = ({ state, problem }) => {
  const about = FILE_STATES[state] ?? "";
  byId("file-state").hidden = about === "";
  if (byId("file-about").textContent !== about) byId("file-about").textContent = about;
  byId("file-problem").hidden = problem === undefined;
  if (byId("file-problem").textContent !== (problem ?? "")) byId("file-problem").textContent = problem ?? "";
};

/** Offers actions to those who may, and says to others why they may not. */
export const allowActions = ({ is_allowed, why }) => {
  byId("process-view").hidden = !is_allowed;
  byId("process-why").hidden = is_allowed;
  byId("process-why").textContent = why ?? "";
};

/** Makes the buttons work. */
export const startProcesses = () => {
  byId("reload").addEventListener("click", reload);
};
