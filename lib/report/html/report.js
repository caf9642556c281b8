// The page: what a person needs who decides whether the quantized model may be used.

const OPERANDS = [["weight", "weight"], ["activation", "input activation"], ["output", "output"],
  ["accumulated", "accumulated output"]];
// Rows come in the order of reading; charts want the model's.
const BY_DEPTH = [...DATA.rows.keys()].sort((a, b) => DATA.depth[a] - DATA.depth[b]);

function cards() {
  const quantized = DATA.quantized;
  const model = REPORT.model || {}, coverage = REPORT.coverage || {}, network = REPORT.network || {};
  const list = [["Layers quantized", `${quantized} of ${DATA.layers}`, ""]];
  // An SQNR with its sign and unit.
  const decibels = value => (measured(value) === null ? "" : quality(measured(value)).mark) + shown("decibel", value) +
    (Number.isFinite(measured(value)) && measured(value) !== null ? " dB" : "");
  const style = value => quality(measured(value)).style;
  if (measured(coverage.parameters) !== null) {
    list.push(["Parameters quantized", shown("share", coverage.parameters), "of all floating-point weights"]);
  }
  if (measured(coverage.macs) !== null) list.push(["Multiply-adds quantized", shown("share", coverage.macs), ""]);
  const before = measured(model.bytes_before), after = measured(model.bytes_after);
  if (before && after !== null) {
    list.push(["Size", `${FORMATS.bytes(after)}`, `${shown("share", after / before)} of ${FORMATS.bytes(before)}`]);
  }
  for (const output of network.outputs || []) {
    const agreement = measured(output.argmax_agreement) === null ? "" : `, same argmax ${shown("share", output.argmax_agreement)}`;
    list.push([`Network output ${output.name}`, decibels(output.sqnr_db), `cosine ${shown("number", output.cosine)}${agreement}`,
      style(output.sqnr_db)]);
  }
  const perplexity = network.perplexity;
  if (perplexity) {
    list.push(["Perplexity", shown("number", perplexity.quantized), `before ${shown("number", perplexity.original)}`]);
    if (measured(perplexity.loss_gap_percent) !== null) {
      list.push(["Loss gap", `${significant(perplexity.loss_gap_percent, 3)} %`, "rise of the loss"]);
    }
  }
  const worst = worstLayer();
  if (worst) list.push([`Lowest SQNR of ${worst.what}`, decibels(worst.value), worst.name, style(worst.value)]);
  return el("ul", {class: "cards"}, ...list.map(([label, value, note, kind]) =>
    el("li", null, el("span", {class: "label"}, label), el("strong", {class: kind || null}, value), el("span", {class: "note"}, note))));
}

// Of the outputs where they were measured, else of the weights.
function worstLayer() {
  for (const [column, what] of [["output_sqnr", "a layer's output"], ["weight_sqnr", "a weight"]]) {
    const rows = DATA.rows.filter(row => numberOf(row, column) !== null);
    if (rows.length === 0) continue;
    const row = rows.reduce((a, b) => numberOf(b, column) < numberOf(a, column) ? b : a);
    return {what, name: cell(row, "layer"), value: cell(row, column)};
  }
  return null;
}

function notices() {
  const run = REPORT.run || {};
  const list = [];
  const notice = (kind, word, text) => list.push(el("p", {class: `notice ${kind}`}, el("b", null, word), text));
  for (const gate of DATA.gates) notice(gate.passed ? "passed" : "failed", gate.passed ? "✓ passed:" : "✗ failed:", gate.message);
  if (run.synthetic) notice("failed", "Made-up data:", "the numbers are a smoke test and say nothing about the model.");
  const data = run.evaluation;
  if (data) {
    list.push(el("p", {class: "soft"}, `Measured on ${data.description}` + (data.samples ? ` (${data.samples} samples)` : "") +
      (data.is_calibration_data ? ", the data that the scales were chosen on: the numbers are a little too good." : ".")));
  } else {
    list.push(el("p", {class: "soft"}, "The network was not run: there are errors of weights only."));
  }
  const alone = (REPORT.unmatched || []).length;
  if (alone > 0) notice("", "Without a partner:", `${alone} tensor${alone > 1 ? "s are" : " is"} in one of the two models only; the names are below.`);
  for (const warning of run.warnings || []) notice("", "Warning:", warning);
  return list;
}

function pickLayer(name) {
  CHOSEN = name;
  layerTable.mark(name);
  showLayer(name);
  if (delayedView) delayedView.show(name);
  for (const chart of CHARTS) if (chart.plot) chart.plot.redraw(false);
}

function depthSeries(metric) {
  return OPERANDS.filter(([key]) => COLUMN.has(`${key}_${metric}`)).map(([key, label], i) =>
    ({label, color: i + 1,
      values: BY_DEPTH.map(r => numberOf(DATA.rows[r], `${key}_${metric}`))}));
}

function depthSection() {
  const names = BY_DEPTH.map(r => cell(DATA.rows[r], "layer"));
  const positions = BY_DEPTH.map(r => DATA.depth[r] + 1);
  const common = {names, positions, pick: i => pickLayer(names[i])};
  const charts = [
    depthChart({...common, title: "SQNR of every layer", unit: "dB", kind: "decibel", series: depthSeries("sqnr")}),
    depthChart({...common, title: "Zero rate of every layer", unit: "share of zeros", kind: "share", logarithmic: true,
      series: depthSeries("zero_rate")})];
  const cache = REPORT.kv_cache || [];
  if (cache.length) {
    const common = {names: cache.map(c => c.name), positions: cache.map((_, i) => i + 1),
      pick: i => pickLayer(cache[i].name)};
    const series = metric => ["k", "v"].map((key, i) =>
      ({label: key.toUpperCase(), color: i + 1, values: cache.map(c => measured(c[key] && c[key][metric]))}));
    charts.push(
      depthChart({...common, title: "SQNR of cached K and V", unit: "dB", kind: "decibel", series: series("sqnr_db")}),
      depthChart({...common, title: "Zero rate of cached K and V", unit: "share of zeros", kind: "share", logarithmic: true,
        series: series("zero_rate")}));
  }
  const drawn = charts.filter(Boolean);
  if (drawn.length === 0) return;
  section("depth", "Over the depth of the model",
    el("p", {class: "soft screen"}, "Point at a chart to read the values, click to choose a layer; with the keyboard, arrow keys and Enter."),
    el("div", {class: "charts"}, ...drawn));
}

// The chosen layer: its numbers and its exponents over the bands of its format.
const detail = {title: el("h3", {id: "chosen-layer"}), body: el("div"), charts: []};

function operandsOf(name) {
  const row = DATA.rows.find(r => cell(r, "layer") === name);
  const operands = [];
  if (row) {
    const exponents = DATA.exponents[DATA.rows.indexOf(row)] || {};
    for (const [key, label] of OPERANDS) operands.push({label, format: cell(row, key + "_format"), ...exponents[key]});
  }
  for (const entry of (REPORT.kv_cache || []).filter(c => c.name === name)) {
    for (const key of ["k", "v"]) {
      const o = entry[key];
      if (o) operands.push({label: `cached ${key.toUpperCase()}`, format: o.format, before: o.exponents_before, after: o.exponents_after, all: o});
    }
  }
  return {row, operands};
}

function bandTable(operands) {
  const with_bands = operands.filter(o => (o.before && o.before.bands) || (o.after && o.after.bands));
  if (with_bands.length === 0) return null;
  const total = e => (e.zeros || 0) + e.counts.reduce((a, b) => a + b, 0);
  const columns = with_bands.flatMap(o => [["before", o.before], ["after", o.after]].filter(([, e]) => e)
    .map(([when, e]) => ({title: `${o.label}, ${when}`, e})));
  const bits = [...new Set(columns.flatMap(c => (c.e.bands || []).map(b => b.bits)))].sort((a, b) => b - a);
  const rows = bits.map(b => [`${b} significant bit${b > 1 ? "s" : ""}`, ...columns.map(c => {
    const band = (c.e.bands || []).find(x => x.bits === b);
    return band ? shown("share", band.share) : "-";
  })]);
  rows.push(["below the format's smallest", ...columns.map(c => shown("share", c.e.below))]);
  rows.push(["above its largest", ...columns.map(c => shown("share", c.e.above))]);
  rows.push(["zero", ...columns.map(c => total(c.e) ? shown("share", (c.e.zeros || 0) / total(c.e)) : "-")]);
  return el("div", {class: "scroll"}, table("Share of elements per precision band", ["elements kept with", ...columns.map(c => c.title)], rows));
}

function showLayer(name) {
  for (const chart of detail.charts) chart.remove();
  detail.charts = [];
  detail.title.textContent = name;
  const {row, operands} = operandsOf(name);
  const drawn = el("div", {class: "charts"});
  detail.body.replaceChildren();
  if (row) {
    const facts = [cell(row, "op"), cell(row, "status"), cell(row, "reason"), cell(row, "notes")].filter(Boolean).join(" · ");
    detail.body.append(el("p", {class: "soft"}, facts), el("div", {class: "scroll facts"}, factTable(row)));
  }
  detail.body.append(drawn);
  const later = [];  // drawn once the place has a width
  for (const o of operands) {
    const format = (REPORT.formats || []).find(f => f.name === o.format);
    later.push(() => exponentChart(`Exponents of the ${o.label}${format ? " over the bands of " + format.name : ""}`,
      o.before, o.after, format ? format.bands : []));
  }
  for (const make of later) {
    const made = make();
    if (!made) continue;
    drawn.append(made.node);
    detail.charts.push(made.chart);
    made.chart.draw();
  }
  if (detail.charts.length === 0) detail.body.append(el("p", {class: "soft"}, "No exponents were recorded for this layer."));
  const bands = bandTable(operands);
  if (bands) detail.body.append(el("h3", null, "Share of elements per precision band, before and after scaling"), bands);
}

// All numbers of one layer: a line per metric, a column per operand.
function factTable(row) {
  const present = OPERANDS.filter(([key]) => DATA.columns.some(c => c.name.startsWith(key + "_") && shown(c.kind, cell(row, c.name)) !== "-"));
  const metrics = [...new Set(DATA.columns.filter(c => present.some(([key]) => c.name.startsWith(key + "_")))
    .map(c => c.name.slice(c.name.indexOf("_") + 1)))];
  const rows = metrics.map(metric => {
    const column = DATA.columns.find(c => present.some(([key]) => c.name === `${key}_${metric}`));
    return [el("span", {title: column.help}, metric === "sqnr" ? "SQNR, dB" : metric.replaceAll("_", " ")),
      ...present.map(([key]) => COLUMN.has(`${key}_${metric}`) ? shown(column.kind, cell(row, `${key}_${metric}`)) : "-")];
  }).filter(r => r.slice(1).some(v => v !== "-"));
  return table("Numbers of the layer", ["metric", ...present.map(([, label]) => label)], rows);
}

const layerTable = new LayerTable(pickLayer);

function page() {
  const model = REPORT.model || {}, run = REPORT.run || {};
  document.getElementById("title").textContent = `Quantization report: ${model.path || "model"}`;
  document.getElementById("subtitle").textContent =
    [model.kind, REPORT.recipe && REPORT.recipe.name ? `recipe ${REPORT.recipe.name}` : "", run.time].filter(Boolean).join(" · ");
  document.getElementById("origin").textContent = `Written by hif8-report from report.json${run.version ? `, version ${run.version}` : ""}.`;
  section("summary", "Summary", cards(), ...notices());
  baselineSection();
  depthSection();
  section("layers", "Layers", ...layerTable.build());
  if (DATA.rows.length || (REPORT.kv_cache || []).length) {
    section("layer", "Chosen layer", cachePicker(), detail.title, detail.body);
    pickLayer(DATA.rows.length ? cell(DATA.rows[0], "layer") : REPORT.kv_cache[0].name);
  }
  formatSection();
  delayedSection();
  otherSections();
  section("run", "Recipe and command", ...runNodes(run));
}

function cachePicker() {
  const cache = REPORT.kv_cache || [];
  if (cache.length === 0) return null;
  const select = el("select", {id: "pick-cache", onchange: event => { if (event.target.value) pickLayer(event.target.value); }},
    el("option", {value: ""}, "choose"), ...cache.map(c => el("option", {value: c.name}, c.name)));
  return el("div", {class: "tools"}, el("label", {for: "pick-cache"}, "Or cached K and V of", select));
}

function runNodes(run) {
  const nodes = [];
  if (run.command) nodes.push(el("h3", null, "Command"), el("pre", {id: "command"}, run.command));
  const facts = [run.version ? `version ${run.version}` : "", run.host, run.time].filter(Boolean).join(" · ");
  if (facts) nodes.push(el("p", {class: "soft"}, facts));
  const stages = Object.entries(run.durations || {});
  if (stages.length) nodes.push(table("Seconds by stage", ["stage", "seconds"], stages.map(([k, v]) => [k, significant(v, 3)])));
  if (REPORT.recipe && REPORT.recipe.resolved) {
    nodes.push(el("h3", null, "Recipe, with every default"), el("pre", {id: "recipe"}, REPORT.recipe.resolved));
  }
  return nodes;
}
