// The table of layers: sorted, filtered, a layer chosen in it.

const COLUMN = new Map(DATA.columns.map((c, i) => [c.name, i]));
const USUAL = ["layer", "op", "status", "output_sqnr_change", "accumulated_sqnr_change", "output_sqnr", "accumulated_sqnr", "weight_sqnr", "activation_sqnr",
  "weight_zero_rate", "activation_zero_rate", "activation_exceeded_rate", "activation_saturation_rate", "reason"];

const cell = (row, name) => row[COLUMN.get(name)];
const numberOf = (row, name) => measured(cell(row, name));
const filled = name => DATA.rows.some(r => shown(DATA.columns[COLUMN.get(name)].kind, cell(r, name)) !== "-");

class LayerTable {
  constructor(pick) {
    this.pick = pick;
    this.visible = new Set(USUAL.filter(n => COLUMN.has(n) && (n === "layer" || filled(n))));
    // {name, descending}; null: as written, worst first
    this.order = ["output_sqnr_change", "weight_sqnr_change"].filter(n => COLUMN.has(n)).map(name => ({name, descending: false}))[0] || null;
    this.nodes = new Map(DATA.rows.map(row => [row, el("tr")]));
    this.head = el("tr");
    this.body = el("tbody");
    this.count = el("p", {class: "soft", role: "status", id: "shown"});
    this.chosen = null;
  }

  build() {
    this.text = el("input", {type: "search", id: "filter-text", placeholder: "name, operator, reason", oninput: () => this.refresh()});
    this.status = this.choice("filter-status", ["quantized", "kept"]);
    this.op = this.choice("filter-op", [...new Set(DATA.rows.map(r => cell(r, "op")))].filter(Boolean).sort());
    this.below = el("input", {type: "number", id: "filter-below", step: "0.5", style: "width: 7rem", oninput: () => this.refresh()});
    const clear = el("button", {type: "button", onclick: () => {
      for (const input of [this.text, this.status, this.op, this.below]) input.value = "";
      this.refresh();
    }}, "Show all");
    const label = (text, input) => el("label", {for: input.id}, text, input);
    const tools = el("div", {class: "tools", role: "search"}, label("Search", this.text), label("Status", this.status),
      label("Operator", this.op), label("Main SQNR below (dB)", this.below), clear);
    this.fillRows();
    this.refresh();
    return [tools, this.columnChoice(), this.count,
      el("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": "Layers"},
        el("table", {id: "layer-table", "aria-label": "Layers"}, el("thead", null, this.head), this.body)),
      el("p", {class: "soft"}, `▼ below ${LOW} dB, ▽ below ${MIDDLE} dB. “${EXACT}” is an infinite SQNR, “-” was not measured. ` +
        "The main SQNR is that of the output, else of the input, else of the weight.")];
  }

  choice(id, values) {
    return el("select", {id, onchange: () => this.refresh()}, el("option", {value: ""}, "all"),
      ...values.map(v => el("option", {value: v}, v)));
  }

  columnChoice() {
    const box = column => {
      const input = el("input", {type: "checkbox", onchange: event => {
        this.visible[event.target.checked ? "add" : "delete"](column.name);
        this.fillRows();
        this.refresh();
      }});
      input.checked = this.visible.has(column.name);
      return el("label", {title: column.help}, input, column.title);
    };
    return el("details", {class: "columns"}, el("summary", null, "Columns"),
      el("div", {class: "choices"}, ...DATA.columns.filter(c => c.name !== "layer" && filled(c.name)).map(box)));
  }

  // The usual ones in their order, others before the reason, which is long and comes last.
  columns() {
    const place = c => c.name === "reason" ? Infinity : USUAL.includes(c.name) ? USUAL.indexOf(c.name) : USUAL.length;
    return DATA.columns.filter(c => this.visible.has(c.name)).sort((a, b) => place(a) - place(b) || 0);
  }

  fillRows() {
    this.head.replaceChildren(...this.columns().map(column => {
      const sorted = this.order && this.order.name === column.name;
      const arrow = sorted ? (this.order.descending ? " ▾" : " ▴") : "";
      return el("th", {scope: "col", class: column.kind === "text" ? null : "number", title: column.help,
        "aria-sort": sorted ? (this.order.descending ? "descending" : "ascending") : "none"},
        el("button", {type: "button", "data-column": column.name, onclick: () => this.sortBy(column)}, column.title + arrow));
    }));
    for (const [row, node] of this.nodes) node.replaceChildren(...this.columns().map(column => this.cellNode(row, column)));
  }

  cellNode(row, column) {
    const value = cell(row, column.name);
    const text = shown(column.kind, value);
    if (column.name === "layer") {
      return el("td", null, el("button", {type: "button", class: "pick", onclick: () => this.pick(value)}, text));
    }
    if (column.kind !== "decibel") return el("td", {class: column.kind === "text" ? (column.name === "reason" ? "reason" : null) : "number"}, text);
    const {mark, style} = quality(measured(value));
    return el("td", {class: `number ${style}`}, mark + text);
  }

  sortBy(column) {
    const same = this.order && this.order.name === column.name;
    this.order = {name: column.name, descending: same ? !this.order.descending : false};
    this.fillRows();
    this.refresh();
    this.head.querySelector(`[data-column="${column.name}"]`).focus();
  }

  sorted() {
    if (!this.order) return DATA.rows;
    const {name, descending} = this.order;
    const text = DATA.columns[COLUMN.get(name)].kind === "text";
    const sign = descending ? -1 : 1;
    return [...DATA.rows].sort((a, b) => {
      if (text) return sign * String(cell(a, name) || "").localeCompare(String(cell(b, name) || ""), "en", {numeric: true});
      const x = numberOf(a, name), y = numberOf(b, name);
      if (x === null || y === null) return (x === null) - (y === null);  // not measured: always last
      return x === y ? 0 : sign * (x < y ? -1 : 1);
    });
  }

  passes(row) {
    const text = this.text.value.trim().toLowerCase();
    if (text && !["layer", "op", "reason"].some(n => String(cell(row, n) || "").toLowerCase().includes(text))) return false;
    if (this.status.value && cell(row, "status") !== this.status.value) return false;
    if (this.op.value && cell(row, "op") !== this.op.value) return false;
    if (this.below.value === "") return true;
    const main = mainSqnr(row);
    return main !== null && main < Number(this.below.value);
  }

  refresh() {
    const rows = this.sorted().filter(row => this.passes(row));
    this.body.replaceChildren(...rows.map(row => this.nodes.get(row)));
    this.count.textContent = `${rows.length} of ${DATA.rows.length} layers` +
      (this.order ? "" : DATA.sorted ? "" : ", worst first");
  }

  mark(name) {
    for (const [row, node] of this.nodes) node.classList.toggle("chosen", cell(row, "layer") === name);
  }
}

function mainSqnr(row) {
  for (const name of ["output_sqnr", "activation_sqnr", "weight_sqnr"]) {
    const value = numberOf(row, name);
    if (value !== null) return value;
  }
  return null;
}
