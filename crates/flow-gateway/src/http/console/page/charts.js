// Charts of the last hour, as SVG.

import { html, show, svg, table } from "./dom.js";
import { count, minute, rate, time } from "./units.js";

const WIDTH_MIN = 260;
const HEIGHT = 190;
const BOX = { left: 46, right: 8, top: 8, bottom: 22 };
/** Slots that become one point: an hour has more slots than a chart has room. */
const SLOTS_PER_POINT = 2;
const ROWS = 60;

/** A round number that is not smaller. */
const ceiling = (value) => {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 2.5, 5, 10].map((it) => it * power).find((it) => it >= value);
};

/** Points of the last hour, empty ones included. */
const points = (report) => {
  const length = report.slot_s * SLOTS_PER_POINT;
  const last = Math.floor(report.now_s / length);
  const first = last - report.slots / SLOTS_PER_POINT + 1;
  const made = Array.from({ length: last - first + 1 }, (_, at) =>
    ({ at: (first + at) * length, seconds: length, requests: 0, failed: 0, p50: null, p99: null }));
  made[made.length - 1].seconds = Math.max(report.slot_s, report.now_s - last * length);
  for (const slot of report.used) {
    const point = made[Math.floor(slot.slot / SLOTS_PER_POINT) - first];
    if (!point) continue;
    point.requests += slot.requests;
    point.failed += slot.failed;
    // The larger one of two slots: a chart must not hide a peak.
    point.p50 = Math.max(point.p50 ?? 0, slot.p50_ms ?? 0) || point.p50;
    point.p99 = Math.max(point.p99 ?? 0, slot.p99_ms ?? 0) || point.p99;
  }
  return made;
};

/** A chart is as wide as its place, so that its texts are as large as others. */
const scales = (made, max, whole) => {
  const width = whole - BOX.left - BOX.right;
  const height = HEIGHT - BOX.top - BOX.bottom;
  return {
    whole,
    x: (at) => BOX.left + (width * at) / (made.length - 1),
    y: (value) => BOX.top + height * (1 - Math.min(value / max, 1)),
  };
};

const axes = (made, max, label, { whole, x, y }) => {
  const lines = [0, 0.5, 1].flatMap((part) => [
    svg("line", { class: "rule", x1: BOX.left, x2: whole - BOX.right, y1: y(max * part), y2: y(max * part) }),
    svg("text", { class: "axis", x: BOX.left - 6, y: y(max * part) + 4, "text-anchor": "end" }, label(max * part)),
  ]);
  const every = Math.round((made.length - 1) / 4);
  for (let at = 0; at < made.length; at += every) {
    const anchor = at === 0 ? "start" : at > made.length - every / 2 ? "end" : "middle";
    lines.push(svg("text", { class: "axis", x: x(at), y: HEIGHT - 6, "text-anchor": anchor }, minute(made[at].at)));
  }
  return lines;
};

/** A line with gaps where there are no values. */
const line = (kind, values, { x, y }) => {
  let path = "";
  values.forEach((value, at) => {
    if (value == null) return;
    const begins = values[at - 1] == null;
    path += `${begins ? "M" : "L"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
    // A value alone is a short line.
    if (begins && values[at + 1] == null) path += "h1.5";
  });
  return svg("path", { class: "line " + kind, d: path });
};

const area = (kind, values, { x, y }) => {
  const top = values.map((value, at) => `L${x(at).toFixed(1)} ${y(value).toFixed(1)}`).join("");
  return svg("path", { class: "area " + kind, d: `M${x(0)} ${y(0)}${top}L${x(values.length - 1)} ${y(0)}Z` });
};

const legend = (kinds) => html("p", { class: "legend" },
  kinds.map(([kind, name]) => html("span", { class: "key " + kind }, name)));

/** Says the values below the pointer. */
const readout = (picture, made, scale, say) => {
  const mark = svg("line", { class: "mark", y1: BOX.top, y2: HEIGHT - BOX.bottom, visibility: "hidden" });
  const said = html("p", { class: "readout" }, "\u00a0");
  picture.append(mark);
  picture.addEventListener("pointermove", (event) => {
    const frame = picture.getBoundingClientRect();
    const inside = ((event.clientX - frame.left) / frame.width) * scale.whole;
    const at = Math.round(((inside - BOX.left) / (scale.whole - BOX.left - BOX.right)) * (made.length - 1));
    const point = made[Math.max(0, Math.min(made.length - 1, at))];
    mark.setAttribute("x1", scale.x(made.indexOf(point)));
    mark.setAttribute("x2", scale.x(made.indexOf(point)));
    mark.setAttribute("visibility", "visible");
    said.textContent = `${minute(point.at)}: ${say(point)}`;
  });
  picture.addEventListener("pointerleave", () => {
    mark.setAttribute("visibility", "hidden");
    said.textContent = "\u00a0";
  });
  return said;
};

const chart = (parent, name, made, max, label, say, shapes, kinds) => {
  const scale = scales(made, max, Math.max(WIDTH_MIN, parent.clientWidth));
  const picture = svg("svg", { viewBox: `0 0 ${scale.whole} ${HEIGHT}`, role: "img", "aria-label": name },
    axes(made, max, label, scale), shapes(scale));
  const said = readout(picture, made, scale, say);
  show(parent, picture, legend(kinds), said);
};

const rateOf = (point) => point.requests / point.seconds;

const showRates = (parent, made) => {
  const rates = made.map(rateOf);
  const failed = made.map((it) => it.failed / it.seconds);
  const max = ceiling(Math.max(...rates));
  chart(parent, `Requests per second in the last hour, at most ${rate(Math.max(...rates))}`, made, max,
    (value) => Number(value.toPrecision(3)).toLocaleString("en"),
    (it) => `${rate(rateOf(it))}, ${rate(it.failed / it.seconds)} failed`,
    (scale) => [area("all", rates, scale), line("all", rates, scale), area("failed", failed, scale)],
    [["all", "all"], ["failed", "failed"]]);
};

const showLatencies = (parent, made) => {
  const p99 = made.map((it) => it.p99);
  const max = ceiling(Math.max(...p99.map((it) => it ?? 0)));
  chart(parent, "Latency in the last hour: median, and the time within which 99 % were done", made, max,
    (value) => Number(value.toPrecision(3)).toLocaleString("en"),
    (it) => (it.p50 == null ? "none" : `median ${time(it.p50)}, 99 % ${time(it.p99)}`),
    (scale) => [line("p99", p99, scale), line("p50", made.map((it) => it.p50), scale)],
    [["p50", "median"], ["p99", "99 %"]]);
};

const showTable = (parent, made) => {
  const used = made.filter((it) => it.requests > 0).slice(-ROWS).reverse();
  const rows = used.map((it) => [minute(it.at), rate(rateOf(it)), count(it.requests), count(it.failed), time(it.p50), time(it.p99)]);
  const columns = [["Time"], ["Rate", true], ["Requests", true], ["Failed", true], ["Median", true], ["99 %", true]];
  show(parent, table(`The last hour in steps of ${made[0].seconds} s, those with requests`, columns, rows, "No requests in the last hour."));
};

/** Draws what `history` reports. */
export const showHistory = (places, report) => {
  const made = points(report);
  showRates(places.rate, made);
  showLatencies(places.latency, made);
  if (places.table.parentElement.open) showTable(places.table, made);
};
