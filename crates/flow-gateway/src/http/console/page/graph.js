// The graph of the flow. The gateway lays it out as `flow plot` does, with room for numbers in each card.

import { html, show, svg } from "./dom.js";
import { count, rate, time } from "./units.js";

const MARGIN = 16;
const PADDING = 16;
const STATES = { ready: "ready", not_called: "not called yet", unreachable: "unreachable" };
const DOTS_MAX = 12;

/** All replicas of a node. */
export const replicas = (node) => [...node.shards.flat(), ...(node.before ?? []), ...(node.after ?? [])];

/** In a word, how a node does. */
export const state = (node) => {
  const all = replicas(node);
  const lost = all.filter((it) => it.state === "unreachable").length;
  if (lost > 0 && lost === all.length) return ["bad", "unreachable"];
  if (lost > 0) return ["warn", `${lost} of ${all.length} unreachable`];
  if (!node.was_ready) return ["warn", "starting"];
  return ["good", "ready"];
};

const text = (kind, x, y, said, more) => svg("text", { class: kind, x, y, ...more }, said);

const rectangle = (kind, x, y, width, height, rx) => svg("rect", { class: kind, x, y, width, height, rx });

const door = (card) => {
  const middle = { "text-anchor": "middle" };
  const x = card.left + card.width / 2;
  const base = card.top + PADDING + 14;
  return svg("g", {}, rectangle("door", card.left, card.top, card.width, card.height, 26),
    text("door-name", x, base, card.title, middle), text("door-small", x, base + 17, card.lines[0] ?? "", middle));
};

const card = (drawn) => {
  const { left, top, width, height } = drawn;
  const group = svg("g", { class: "node" });
  if (drawn.is_stack) {
    for (const behind of [10, 5]) group.append(rectangle("behind", left + behind, top - behind, width, height, 10));
  }
  const dashed = drawn.is_aside || drawn.kind === "external";
  group.append(rectangle(dashed ? "card dashed" : "card", left, top, width, height, 10));
  const bar = rectangle("bar", left + 8, top + 12, 4, height - 24, 2);
  group.append(bar);
  const x = left + PADDING + 4;
  let base = top + PADDING;
  if (drawn.when) {
    group.append(text("when", x, base + 11, "if " + drawn.when));
    base += 30;
  }
  base += 13;
  group.append(text("title", x, base, drawn.title));
  for (const line of drawn.lines) {
    base += 17;
    group.append(text("small", x, base, line));
  }
  const numbers = svg("g", {});
  group.append(numbers);
  return { group, bar, numbers, x, base };
};

const dots = (node, x, y) => {
  const all = replicas(node);
  if (all.length > DOTS_MAX) {
    const ready = all.filter((it) => it.state === "ready").length;
    return [text("small", x, y + 4, `${count(ready)} of ${count(all.length)} replicas ready`)];
  }
  return all.map((replica, at) =>
    svg("circle", { class: "dot " + replica.state, cx: x + 5 + at * 15, cy: y, r: 5 },
      svg("title", {}, `${replica.address}: ${STATES[replica.state]}, ${replica.in_progress} in progress`)));
};

const numbers = (place, node) => {
  const { x, base } = place;
  const { recent } = node;
  const failing = recent.failed > 0;
  const first = text("value", x, base + 20, rate(recent.per_second));
  const errors = failing ? `${rate(recent.failed_per_second)} errors` : "no errors";
  first.append(svg("tspan", { class: failing ? "errors" : "small", dx: 10 }, errors));
  const times = recent.p50_ms == null ? "no times yet" : `${time(recent.p50_ms)} · 99 % ${time(recent.p99_ms)}`;
  show(place.numbers, first, text("small", x, base + 37, times), ...dots(node, x, base + 50));
  place.bar.setAttribute("class", "bar " + state(node)[0]);
};

/** Draws a flow; returns a function that shows new numbers. */
export const draw = (parent, drawing) => {
  const top = 12 + MARGIN;
  const width = drawing.width + 2 * MARGIN + 10;
  const height = drawing.height + top + MARGIN;
  const inner = svg("g", { transform: `translate(${MARGIN} ${top})` });
  for (const link of drawing.links) {
    const aside = link.is_aside ? " aside" : "";
    inner.append(svg("path", { class: "link" + aside, d: link.path }), svg("path", { class: "tip" + aside, d: link.tip }));
  }
  const cards = drawing.cards.map((drawn) => {
    if (drawn.kind === "start" || drawn.kind === "end") {
      inner.append(door(drawn));
      return null;
    }
    const place = card(drawn);
    inner.append(place.group);
    return place;
  }).filter(Boolean);
  const names = drawing.cards.slice(1, -1).map((it) => it.title).join(", ");
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", id: "picture" },
    svg("title", {}, `The graph of the flow: ${names}. The table below has the same numbers.`), inner);
  show(parent, picture);
  if (drawing.links.some((it) => it.is_aside)) {
    parent.append(html("p", { class: "hint" }, "Dashed lines: the reply does not wait for it."));
  }
  return (nodes) => cards.forEach((place, at) => nodes[at] && numbers(place, nodes[at]));
};
