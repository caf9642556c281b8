// Numbers and elements. All text goes through textContent: names come from models and may hold anything.

const DATA = JSON.parse(document.getElementById("data").textContent);
const REPORT = DATA.report;

// null: not measured. The report writes infinity as text.
function measured(value) {
  if (value === "inf") return Infinity;
  if (value === "-inf") return -Infinity;
  return typeof value === "number" ? value : null;
}

const EXACT = "exact";  // an infinite SQNR

const FORMATS = {
  decibel: v => v === Infinity ? EXACT : v.toFixed(2),
  share: v => v === 0 ? "0 %" : significant(100 * v, 3) + " %",
  change: v => v === 0 ? "=" : (v > 0 ? "+" : "") + v.toFixed(2) + (v < 0 ? " ▼" : ""),  // of an SQNR
  number: v => significant(v, 6),
  count: v => v.toLocaleString("en"),
  bytes: v => {
    const unit = v >= 1e9 ? [1e9, "GB"] : v >= 1e6 ? [1e6, "MB"] : v >= 1e3 ? [1e3, "kB"] : [1, "B"];
    return significant(v / unit[0], 4) + " " + unit[1];
  },
};

function significant(value, digits) {
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e7)) return value.toExponential(Math.min(digits, 3) - 1);
  return String(Number(value.toPrecision(digits)));
}

// A value of a column for people; "-" where there is nothing.
function shown(kind, value) {
  if (kind === "text") return value || "-";
  const number = measured(value);
  return number === null ? "-" : FORMATS[kind](number);
}

// SQNR for people: a sign beside the number, since colour must not be the only one.
const LOW = 15, MIDDLE = 25;
function quality(decibel) {
  if (decibel === null || decibel >= MIDDLE) return {mark: "", style: ""};
  return decibel < LOW ? {mark: "▼ ", style: "bad"} : {mark: "▽ ", style: "warn"};
}

function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter(c => c !== null && c !== undefined));
  return node;
}

function section(id, title, ...children) {
  document.getElementById("sections").append(el("a", {href: "#" + id}, title));
  const node = el("section", {id, "aria-labelledby": id + "-title"}, el("h2", {id: id + "-title"}, title), ...children);
  document.getElementById("main").append(node);
  return node;
}

// rows of nodes or texts; `numbers`: from which column on cells are numbers.
function table(caption, heads, rows, numbers = 1) {
  const style = i => i >= numbers ? "number" : null;
  return el("table", {"aria-label": caption},
    el("thead", null, el("tr", null, ...heads.map((h, i) => el("th", {scope: "col", class: style(i)}, h)))),
    el("tbody", null, ...rows.map(row => el("tr", null, ...row.map((cell, i) => el("td", {class: style(i)}, cell))))));
}
