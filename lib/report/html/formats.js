// Number formats side by side, and parts of the report that have no section of their own.

// DATA.comparisons: {formats, rows: [layer, operand, [[sqnr, zero rate] per format]]}
function formatSection() {
  const {formats, rows} = DATA.comparisons;
  if (rows.length === 0) return;
  const operands = [...new Set(rows.map(r => r[1]))];
  const place = el("div");
  let chart = null;
  const select = el("select", {id: "compare-operand", onchange: () => show(select.value)},
    ...operands.map(o => el("option", {value: o}, o)));
  const show = operand => {
    const chosen = rows.filter(r => r[1] === operand);
    while (chart && chart.length) chart.pop().remove();
    const before = CHARTS.length;
    const series = formats.map((f, i) => ({label: f, color: i + 1, values: chosen.map(r => measured((r[2][i] || [])[0]))}));
    const node = depthChart({title: `SQNR of the ${operand} in every format`, unit: "dB", kind: "decibel",
      names: chosen.map(r => r[0]), positions: chosen.map((_, i) => i + 1), series, pick: i => pickLayer(chosen[i][0])});
    chart = CHARTS.slice(before);
    place.replaceChildren(...(node ? [node] : []), el("div", {class: "scroll low"}, formatTable(formats, chosen)));
    for (const c of chart) c.draw();
  };
  section("formats", "Formats compared", el("div", {class: "scroll"}, meanTable(formats, rows, operands)),
    el("div", {class: "tools"}, el("label", {for: "compare-operand"}, "Operand", select)), place);
  show(operands[0]);
}

function starred(values) {
  const best = Math.max(...values.filter(v => v !== null));
  return values.map(v => v === null ? "-" : FORMATS.decibel(v) + (v === best ? " ★" : ""));
}

function meanTable(formats, rows, operands) {
  const mean = (operand, i) => {
    const values = rows.filter(r => r[1] === operand).map(r => measured((r[2][i] || [])[0])).filter(v => v !== null && Number.isFinite(v));
    return values.length ? values.reduce((a, b) => a + b, 0) / values.length : null;
  };
  return table("Mean SQNR per format", ["mean SQNR in dB (★ best)", ...formats],
    operands.map(o => [o, ...starred(formats.map((_, i) => mean(o, i)))]));
}

function formatTable(formats, rows) {
  return table("SQNR per layer and format", ["layer, SQNR in dB (★ best)", ...formats],
    rows.map(r => [r[0], ...starred(formats.map((_, i) => measured((r[2][i] || [])[0])))]));
}

// Whatever else a report holds as a list of records, as a table; lists of numbers become a small chart.
const KNOWN = new Set(["schema", "delayed_study", "model", "kv_cache", "comparisons", "formats", "network", "coverage", "recipe", "run", "layers"]);

const TITLES = {unmatched: "Tensors without a partner", auto: "The goal and what it took"};

function titleOf(key) { return key.charAt(0).toUpperCase() + key.slice(1).replaceAll("_", " "); }

function otherSections() {
  for (const [key, value] of Object.entries(REPORT)) {
    if (KNOWN.has(key) || value === null) continue;
    const title = TITLES[key] || titleOf(key);
    const nodes = anyNodes(value, title);
    if (nodes.length) section("part-" + key, title, ...nodes);
  }
}

const isNumbers = v => Array.isArray(v) && v.length > 1 && v.every(x => x === null || typeof x === "number");

function anyNodes(value, title) {
  if (Array.isArray(value)) {
    if (value.length === 0) return [];
    if (isNumbers(value)) return [sparkline(title, value)];
    if (value.every(v => v !== null && typeof v === "object" && !Array.isArray(v))) return recordNodes(value, title);
    return [el("ul", null, ...value.map(v => el("li", null, plain(v))))];
  }
  if (value !== null && typeof value === "object") {
    const flat = Object.entries(value).filter(([, v]) => v === null || typeof v !== "object");
    const deep = Object.entries(value).filter(([, v]) => v !== null && typeof v === "object");
    return [...(flat.length ? [table(title, ["", ""], flat.map(([k, v]) => [titleOf(k), plain(v, k)]))] : []),
      ...deep.flatMap(([k, v]) => {
        const nodes = anyNodes(v, titleOf(k));
        return nodes.length ? [el("h3", null, titleOf(k)), ...nodes] : [];
      })];
  }
  return [el("p", null, plain(value))];
}

function recordNodes(records, title) {
  const keys = [...new Set(records.flatMap(r => Object.keys(r)))];
  const deep = keys.filter(k => records.some(r => r[k] !== null && typeof r[k] === "object"));
  const flat = keys.filter(k => !deep.includes(k));
  const text = flat.filter(k => records.some(r => typeof r[k] === "string" && measured(r[k]) === null));
  const order = [...text, ...flat.filter(k => !text.includes(k))];
  const nodes = order.length ? [el("div", {class: "scroll low"}, table(title, order.map(titleOf),
    records.map(r => order.map(k => plain(r[k], k))), text.length))] : [];
  for (const record of records) {
    const name = text.length ? text.map(k => record[k]).filter(Boolean).join(" · ") : title;
    for (const key of deep) {
      const parts = record[key] ? anyNodes(record[key], titleOf(key)) : [];
      if (parts.length) nodes.push(el("details", {class: "part"}, el("summary", null, `${name}: ${titleOf(key)}`), ...parts));
    }
  }
  return nodes;
}

function plain(value, key = "") {
  if (value === null || value === undefined) return "-";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "object") return JSON.stringify(value);
  const number = measured(value);
  if (number === null) return String(value);
  if (key.endsWith("_rate") || key.endsWith("_share")) return FORMATS.share(number);
  return key.endsWith("_db") ? shown("decibel", value) : significant(number, 6);
}

function sparkline(title, values) {
  const host = el("div", {class: "chart", role: "img", "aria-label": `${title}, ${values.length} values`});
  new Chart(host, (color, width) => ({width, height: 180, padding: [8, 8, 0, 0],
    scales: {x: {time: false}}, axes: [axis(color, "step"), axis(color, title, {size: 62})],
    series: [{label: "step"}, {label: title, stroke: color("series-1"), width: 2}]}), [values.map((_, i) => i), values]).draw();
  return host;
}

page();
