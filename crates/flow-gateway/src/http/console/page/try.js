// Sends texts to an endpoint, and shows what comes back: vectors as colours and their similarities, or matches.

import { call, key } from "./api.js";
import { LANGUAGES } from "./code.js";
import { byId, html, show, svg, table, tabs } from "./dom.js";
import { bytes, count, number, similarity, time } from "./units.js";

/** Texts of one request: the page shows each of them. */
const TEXTS_MAX = 32;
const CELL = 6;
const ROW = 96;
const NAME_MAX = 24;

let known = [];
let language = Object.keys(LANGUAGES)[0];

const short = (text, max = NAME_MAX) => (text.length > max ? text.slice(0, max - 1) + "…" : text);

/** Blue for negative values, orange for positive ones, deeper the larger they are. */
const colour = (value, max, deepest = 0.94) => {
  const part = max > 0 ? Math.min(1, Math.abs(value) / max) : 0;
  return `hsl(${value < 0 ? 217 : 28} 85% 50% / ${(0.06 + deepest * part).toFixed(2)})`;
};

/** A vector as coloured squares, row by row. */
const heatMap = (vector, name) => {
  const max = vector.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  const rows = Math.ceil(vector.length / ROW);
  const width = CELL * Math.min(ROW, vector.length);
  const norm = Math.sqrt(vector.reduce((sum, value) => sum + value * value, 0));
  const picture = svg("svg", { class: "heat", viewBox: `0 0 ${width} ${CELL * rows}`, role: "img",
    "aria-label": `Vector of ${short(name)}: ${count(vector.length)} numbers, largest ${number(max)}` },
    vector.map((value, at) => svg("rect", { x: CELL * (at % ROW), y: CELL * Math.floor(at / ROW), width: CELL, height: CELL,
      fill: colour(value, max) }, svg("title", {}, `${at}: ${number(value)}`))));
  const first = vector.slice(0, 4).map(number).join(", ");
  return html("figure", {}, html("figcaption", {}, html("b", {}, short(name, 80)),
    ` ${count(vector.length)} numbers, length ${number(norm)}: ${first}, …`), picture);
};

const cosine = (a, b) => {
  let [dot, ofA, ofB] = [0, 0, 0];
  a.forEach((value, at) => {
    dot += value * b[at];
    ofA += value * value;
    ofB += b[at] * b[at];
  });
  return dot / (Math.sqrt(ofA * ofB) || 1);
};

const matrix = (docs) => {
  const columns = [["Text"], ...docs.map((doc) => [short(doc.text ?? doc.id, 14), true])];
  const rows = docs.map((doc) => [short(doc.text ?? doc.id), ...docs.map((other) => {
    const value = cosine(doc.embedding, other.embedding);
    const cell = html("span", { class: "similar" }, similarity(value));
    // Not so deep that the number could not be read.
    cell.style.backgroundColor = colour(value, 1, 0.5);
    return cell;
  })]);
  const made = table("Similarity of each text to each other, as the cosine of their vectors", columns, rows);
  made.classList.remove("cards");
  return [html("h3", {}, "Similarity (cosine)"), html("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Similarities" }, made)];
};

const scores = (match) => {
  const all = Object.entries(match.scores ?? {}).map(([name, it]) => [name, it?.value ?? it]);
  if (all.length === 0 && match.score != null) all.push(["score", match.score]);
  return all.map(([name, value]) => `${name} ${number(value)}`).join(", ") || "–";
};

const matches = (doc) => [
  html("h3", {}, `Found for “${short(doc.text ?? doc.id, 80)}”`),
  table(`Documents found for ${short(doc.text ?? doc.id, 80)}`, [["Place", true], ["Document"], ["Score", true]],
    doc.matches.map((match, at) => [count(at + 1), match.text || match.id, scores(match)])),
];

/** A score that the executor gave the document itself, as rerankers do. */
const scored = (docs) => [html("h3", {}, "Scores"),
  table("Scores of the documents", [["Document"], ["Score", true]], docs.map((doc) => [short(doc.text ?? doc.id, 120), scores(doc)]))];

const hasScore = (doc) => Object.keys(doc.scores ?? {}).length > 0 || doc.score != null;

const isVector = (value) => Array.isArray(value) && typeof value[0] === "number";

const showReply = (parent, json) => {
  const docs = Array.isArray(json.data) ? json.data : [];
  const vectors = docs.filter((doc) => isVector(doc.embedding));
  const found = docs.filter((doc) => doc.matches?.length > 0);
  const parts = [];
  parts.push(...found.flatMap(matches));
  if (docs.some(hasScore)) parts.push(...scored(docs));
  if (vectors.length > 0 && found.length === 0) {
    parts.push(html("h3", {}, vectors.length === 1 ? "Vector" : "Vectors"), ...vectors.map((doc) => heatMap(doc.embedding, doc.text ?? doc.id)));
    if (vectors.length > 1) parts.push(...matrix(vectors));
  }
  const whole = html("pre", { class: "json", tabindex: 0 }, "");
  const fill = () => whole.textContent ||= JSON.stringify(json, null, 1);
  const details = html("details", { ontoggle: fill, open: parts.length === 0 }, html("summary", {}, "The whole reply, as JSON"), whole);
  show(parent, parts, details);
};

/** What the form asks for; null if the parameters are not JSON. */
const request = () => {
  const texts = byId("try-texts").value.split("\n").filter((it) => it.trim() !== "").slice(0, TEXTS_MAX);
  const parameters = JSON.parse(byId("try-parameters").value || "{}");
  return { endpoint: byId("try-endpoint").value, texts, parameters };
};

const showCode = () => {
  let asked;
  try {
    asked = request();
  } catch {
    asked = { endpoint: byId("try-endpoint").value, texts: [], parameters: {} };
  }
  const base = location.href.replace(/[?#].*$/, "").replace(/\/$/, "");
  const isTls = location.protocol === "https:";
  const grpc = `${isTls ? "grpcs" : "grpc"}://${location.hostname}:${location.port || (isTls ? 443 : 80)}`;
  byId("code").textContent = LANGUAGES[language]({ ...asked, origin: base, grpc, hasKey: key() !== null });
};

const describe = () => {
  const endpoint = known.find((it) => it.name === byId("try-endpoint").value);
  byId("try-about").textContent = endpoint
    ? `Works at ${endpoint.executors.join(", ")}.${endpoint.writes ? " It writes." : ""}` : "";
  const names = endpoint?.parameters;
  byId("try-accepts").textContent = !names ? "It accepts any parameters." : names.length > 0 ? `It accepts ${names.join(", ")}.` : "It accepts none.";
  showCode();
};

const send = async (event) => {
  event.preventDefault();
  const status = byId("try-status");
  const button = byId("try-send");
  let asked;
  try {
    asked = request();
  } catch (error) {
    status.textContent = `The parameters are not JSON: ${error.message}`;
    return;
  }
  button.disabled = true;
  status.className = "";
  status.textContent = "Sending …";
  try {
    const body = { data: asked.texts.map((it) => ({ text: it })), parameters: asked.parameters };
    const reply = await call(asked.endpoint, body);
    status.textContent = `Answered after ${time(reply.took)} with ${bytes(reply.bytes)}; request id ${reply.id ?? "unknown"}.`;
    showReply(byId("try-reply"), reply.json);
  } catch (error) {
    status.className = "bad";
    status.textContent = error.status ? `Failed with status ${error.status}: ${error.message}` : String(error.message ?? error);
    show(byId("try-reply"));
  } finally {
    button.disabled = false;
  }
};

/** Offers these endpoints. */
export const offer = (endpoints) => {
  known = endpoints.filter((it) => it.name.startsWith("/") && !it.streams);
  const select = byId("try-endpoint");
  const before = select.value;
  show(select, known.map((it) => html("option", { value: it.name }, it.name)));
  const wanted = [before, "/encode", "/search"].find((name) => known.some((it) => it.name === name));
  if (wanted) select.value = wanted;
  describe();
};

/** Makes the form work. */
export const start = () => {
  const list = byId("code-tabs");
  show(list, Object.keys(LANGUAGES).map((name, at) => html("button",
    { type: "button", role: "tab", "aria-selected": at === 0, "aria-controls": "code", tabindex: at === 0 ? 0 : -1, "data-name": name }, name)));
  tabs(list, (tab) => {
    language = tab.dataset.name;
    showCode();
  });
  for (const tab of list.children) tab.setAttribute("aria-selected", String(tab.dataset.name === language));
  byId("try-form").addEventListener("submit", send);
  byId("try-endpoint").addEventListener("change", describe);
  byId("try-texts").addEventListener("input", showCode);
  byId("try-parameters").addEventListener("input", showCode);
  byId("copy").addEventListener("click", async () => {
    await navigator.clipboard?.writeText(byId("code").textContent);
    byId("copy").textContent = "Copied";
    setTimeout(() => { byId("copy").textContent = "Copy"; }, 2000);
  });
};
