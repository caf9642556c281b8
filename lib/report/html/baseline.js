// Two runs: changes since the baseline as further columns, and a section of their own.

const BASELINE = DATA.baseline || null;
const CHANGED = ["output_sqnr", "accumulated_sqnr", "weight_sqnr", "activation_sqnr"];
const CHANGE_COLORS = [3, 4, 1, 2];  // as the operands have in the other charts

// A column of changes for every SQNR that both runs measured. Must come before the table looks at the columns.
function addChanges() {
  const layers = new Map(DATA.rows.map((row, i) => [row[DATA.columns.findIndex(c => c.name === "layer")], i]));
  for (const metric of CHANGED) {
    const values = BASELINE.values.filter(v => v[0] === metric && layers.has(v[1]));
    if (values.length === 0) continue;
    const column = DATA.columns.find(c => c.name === metric);
    DATA.columns.push({name: metric + "_change", title: column.title + " change", kind: "change",
      help: `${column.help}: change since the baseline; negative is worse`});
    for (const row of DATA.rows) row.push(null);
    for (const [, name, now, before] of values) {
      const [a, b] = [measured(now), measured(before)];
      if (a !== null && b !== null) DATA.rows[layers.get(name)][DATA.columns.length - 1] = a === b ? 0 : a - b;
    }
  }
}
if (BASELINE) addChanges();

function baselineSection() {
  if (!BASELINE) return;
  const layerMetrics = new Set(DATA.columns.map(c => c.name));
  const rows = BASELINE.values.filter(v => !layerMetrics.has(v[0])).map(([metric, name, now, before, worse]) => {
    const kind = BASELINE.kinds[metric], by = measured(worse);
    const verdict = by === null ? "-" : by === 0 ? "=" : by > 0 ? el("span", {class: "bad"}, "▼ worse") : el("span", {class: "good"}, "▲ better");
    return [metric + (["network", "model"].includes(name) ? "" : ` of ${name}`), shown(kind, now), shown(kind, before), verdict];
  });
  const names = BY_DEPTH.map(r => cell(DATA.rows[r], "layer"));
  const series = CHANGED.filter(m => COLUMN.has(m + "_change")).map(metric => ({color: CHANGE_COLORS[CHANGED.indexOf(metric)],
    label: metric.replace("_sqnr", ""), values: BY_DEPTH.map(r => numberOf(DATA.rows[r], metric + "_change"))}));
  const unmatched = where => BASELINE.unmatched.filter(u => u.in === where).map(u => el("li", null, `${u.kind} ${u.name}`));
  const list = (title, items) => items.length ? el("details", {open: items.length <= 12}, el("summary", null, `${title}: ${items.length}`),
    el("ul", null, ...items)) : null;
  section("baseline", "Compared with the baseline",
    el("p", {class: "soft"}, `Now: ${BASELINE.current.path}, recipe ${BASELINE.current.recipe}. Baseline: ${BASELINE.baseline.path}, recipe ${BASELINE.baseline.recipe}.`),
    el("div", {class: "scroll facts"}, table("Metrics of the network in both runs", ["metric", "now", "baseline", ""], rows)),
    depthChart({title: "Change of SQNR of every layer; below 0 is worse", unit: "dB", kind: "decibel", names,
      positions: BY_DEPTH.map(r => DATA.depth[r] + 1), series, pick: i => pickLayer(names[i])}),
    list("Quantized in one run, kept in the other", BASELINE.restated.map(r => el("li", null, `${r.layer}: ${r.current} now, ${r.baseline} before`))),
    list("Only in this run", unmatched("current")), list("Only in the baseline", unmatched("baseline")));
}
