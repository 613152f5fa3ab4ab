// Models, endpoints, and what the flow is.

import { byId, html, show, table } from "./dom.js";
import { bytes, count } from "./units.js";

const code = (text) => html("code", {}, text);

const model = ({ id, executor, endpoint, info }) => [
  code(id), executor, code(endpoint), info ? count(info.dimensions) : "–", info ? `${count(info.max_length)} tokens` : "–",
  info?.pooling ?? "–", info?.precision ?? "–", info?.device ?? "–",
];

const MODELS = [["Name"], ["Executor"], ["Endpoint"], ["Dimensions", true], ["Longest text", true], ["Pooling"], ["Precision"], ["Device"]];

const endpoint = (it) => [
  code(it.name), it.executors.join(", "), it.parameters ? it.parameters.join(", ") || "none" : "any",
  [it.writes && "writes", it.streams && "streams"].filter(Boolean).join(", ") || "–",
];

/** Shows what `endpoints` reports. */
export const showKnown = (known) => {
  show(byId("models"), table("Models", MODELS, known.models.map(model), "No executor reports a model."));
  show(byId("endpoints"),
    table("Endpoints", [["Endpoint"], ["Executors"], ["Parameters"], ["Notes"]], known.endpoints.map(endpoint), "No executor has said what it offers."),
    known.silent.length > 0 ? html("p", { class: "hint" }, `Not known yet: ${known.silent.join(", ")}.`) : []);
};

const options = (all) => html("ul", { class: "options" }, all.map(([name, value]) => html("li", {}, code(name), ` ${value}`)));

const said = (value) => (Array.isArray(value) ? value.join(", ") : value === null ? "off" : value === true ? "on" : value === false ? "off" : String(value));

/** Shows what `flow` reports. */
export const showFlow = (flow) => {
  const rows = flow.nodes.map((node) => [node.name, node.needs.join(", "), options(node.options)]);
  show(byId("plan"), table("Executors of the flow", [["Executor"], ["Reads from"], ["Options"]], rows, "The flow has no executors."),
    html("p", { class: "hint" }, "Values of uses_with, env and metadata are not shown: they may be secret."));
  show(byId("gateway"), options(Object.entries(flow.gateway).map(([name, value]) => [name, said(value)])),
    html("p", { class: "hint" }, `The console keeps the last hour in at most ${bytes(flow.history_bytes_max)} of the gateway's memory.`));
};
