// Makes elements. Texts are always inserted as text, never as HTML.

const SVG = "http://www.w3.org/2000/svg";

const fill = (made, attributes, children) => {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value != null) made.setAttribute(name, String(value));
  }
  for (const child of children.flat()) if (child != null) made.append(child);
  return made;
};

/** The element with this id. */
export const byId = (id) => document.getElementById(id);

/** An element of HTML. Children are elements or texts. */
export const html = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);

/** An element of SVG. */
export const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

/** Replaces all that is in an element. */
export const show = (parent, ...children) => parent.replaceChildren(...children.flat());

/** A table with a caption for screen readers. Columns are [title, is a number]; cells are elements or texts. */
export const table = (caption, columns, rows, none = "None.") => {
  if (rows.length === 0) return html("p", { class: "hint" }, none);
  const head = columns.map(([title, number]) => html("th", { scope: "col", class: number ? "number" : null }, title));
  const cell = (value, at) => {
    const [title, number] = columns[at];
    const attributes = { class: number ? "number" : null, "data-title": title };
    return at === 0 ? html("th", { scope: "row", ...attributes }, value) : html("td", attributes, value);
  };
  return html("table", { class: "cards" },
    html("caption", { class: "hidden" }, caption),
    html("thead", {}, html("tr", {}, head)),
    html("tbody", {}, rows.map((row) => html("tr", {}, row.map(cell)))));
};

/** Makes the buttons of a list of tabs behave as such: arrows move between them. */
export const tabs = (list, choose) => {
  const all = () => [...list.querySelectorAll("[role=tab]")];
  const select = (chosen, focus) => {
    for (const tab of all()) {
      tab.setAttribute("aria-selected", String(tab === chosen));
      tab.tabIndex = tab === chosen ? 0 : -1;
    }
    if (focus) chosen.focus();
    choose(chosen);
  };
  list.addEventListener("click", (event) => {
    const tab = event.target.closest("[role=tab]");
    if (tab) select(tab, false);
  });
  list.addEventListener("keydown", (event) => {
    const known = all();
    const at = known.indexOf(document.activeElement);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: known.length - 1 }[event.key];
    if (to === undefined || at < 0) return;
    event.preventDefault();
    select(known[(to + known.length) % known.length], true);
  });
  return select;
};
