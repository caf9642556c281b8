// Delayed scaling: its rules ranked, the best one of every layer, and for the chosen layer the amax of its steps with
// what each rule had estimated for them.

let delayedView = null;

const DELAYED_RULES = ["most_recent", "exp_smooth", "max", "current"];

// The best of the rules that can be had without a second pass over the values: as training clips, and of two that are equal
// there the one exceeded less often. Several when they are equal in that too.
function bestRules(rules) {
  const sqnr = r => measured(r.clipped_mean_sqnr_db) ?? -Infinity;
  const exceeded = r => r.exceeded_elements ?? measured(r.exceeded_rate) ?? 0;
  const delayed = rules.filter(r => r.rule !== "current");
  const most = Math.max(...delayed.map(sqnr));
  const least = Math.min(...delayed.filter(r => sqnr(r) === most).map(exceeded));
  return delayed.filter(r => sqnr(r) === most && exceeded(r) === least);
}

// "all alike" where there is nothing to choose between.
function bestText(rules) {
  const best = bestRules(rules);
  return best.length > 1 && best.length === rules.filter(r => r.rule !== "current").length ? "all alike" : best.map(r => r.rule).join(", ");
}

// A line per rule: its name, shares or counts of what was beyond the estimate and the format, and what both have alike.
function ruleTable(caption, rules, counts) {
  const best = bestRules(rules);
  const heads = ["rule", "steps exceeded", "elements exceeded", "elements overflowed", "overshoot, binades", "mean dB", "worst dB",
    "clipped: mean dB", "clipped: worst dB"];
  return table(caption, heads, rules.map(r => [(best.includes(r) ? "★ " : "") + r.rule, ...counts(r),
    measured(r.overshoot_binades) === null ? "-" : significant(r.overshoot_binades, 3),
    ...["mean_sqnr_db", "worst_sqnr_db", "clipped_mean_sqnr_db", "clipped_worst_sqnr_db"].map(k => shown("decibel", r[k]))]));
}

function rankingTable(ranking) {
  return ruleTable("The rules over all layers, best first", ranking,
    r => ["exceeded_step_rate", "exceeded_rate", "overflow_rate"].map(k => shown("share", r[k])));
}

function layerRuleTable(rules) {
  const of = (count, all) => `${FORMATS.count(count || 0)} of ${FORMATS.count(all || 0)}`;
  return ruleTable("The rules for the chosen layer", rules,
    r => [of(r.exceeded_steps, r.steps - (r.non_finite_steps || 0)), of(r.exceeded_elements, r.elements), of(r.overflowed_elements, r.elements)]);
}

// amax and estimates on a scale of binades.
function traceChart(name, trace) {
  const binades = v => v !== null && v > 0 && Number.isFinite(v) ? Math.log2(v) : null;
  const amax = trace.amax.map(measured);
  const series = [{label: "amax", values: amax, color: 6},
    ...DELAYED_RULES.filter(r => trace[r]).map((r, i) => ({label: r, values: trace[r].map(measured), color: i + 1}))];
  for (const s of series) s.drawn = s.values.map(binades);
  if (series.every(s => s.drawn.every(v => v === null))) return el("p", {class: "soft"}, "No step of this layer has a value but zero.");
  const others = trace.layers.filter(l => l !== name);
  const text = (v, at, s) => v === null || v === undefined ? "-" : significant(v, 5) +
    (s.values !== amax && amax[at] !== null && amax[at] > v ? " ▲ exceeded" : "");
  const host = lineChart({positions: trace.steps, nameLabel: "step", nameOf: i => String(trace.steps[i]), series, text,
    label: `amax of the input of ${name} at ${trace.steps.length} steps and what each rule had estimated. Left and right arrow ` +
      "keys move; the table below has the numbers.",
    xAxis: trace.stride > 1 ? `step; of every ${trace.stride} the one with the largest amax` : "step",
    y: {range: (u, low, high) => [low - 0.15, high + 0.15]},
    yAxis: {label: "amax, logarithmic", incrs: [0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 20], values: (u, ticks) => ticks.map(v => significant(2 ** v, 3))},
    paths: i => i === 0 ? undefined : uPlot.paths.stepped({align: 1})});
  return el("div", null, el("h3", null, `amax of the input of ${name}, step by step`),
    others.length ? el("p", {class: "soft"}, `Also read by ${others.join(", ")}.`) : null, host);
}

class DelayedView {
  // {fields, layers: [[name, [[values of the fields] per rule]]], traces}
  constructor({fields, layers, traces}) {
    const record = values => Object.fromEntries(fields.map((field, i) => [field, values[i]]));
    this.rules = new Map(layers.map(([name, rules]) => [name, rules.map(record)]));
    this.traces = new Map(traces.flatMap(t => t.layers.map(l => [l, t])));
    this.place = el("div");
    this.charts = [];
    this.rows = new Map();
    this.select = el("select", {id: "delayed-layer", onchange: () => this.show(this.select.value)},
      ...[...this.rules.keys()].map(l => el("option", {value: l}, l)));
  }

  // A line per layer: its best rule, and what each one gives.
  layersTable() {
    const names = [...this.rules.keys()];
    const lines = table("The best rule of every layer", ["layer, clipped mean dB", "best rule", ...DELAYED_RULES], names.map(name => {
      const rules = this.rules.get(name), best = bestRules(rules);
      return [el("button", {type: "button", class: "pick", onclick: () => this.show(name)}, name), bestText(rules),
        ...DELAYED_RULES.map(r => {
          const rule = rules.find(x => x.rule === r);
          return rule ? shown("decibel", rule.clipped_mean_sqnr_db) + (best.includes(rule) ? " ★" : "") : "-";
        })];
    }), 2);
    [...lines.tBodies[0].rows].forEach((row, i) => this.rows.set(names[i], row));
    return lines;
  }

  show(name) {
    if (!this.rules.has(name)) return;
    for (const chart of this.charts) chart.remove();
    this.select.value = name;
    for (const [layer, row] of this.rows) row.classList.toggle("chosen", layer === name);
    const before = CHARTS.length;
    const trace = this.traces.get(name);
    this.place.replaceChildren(...(trace ? [traceChart(name, trace)] : []),
      el("div", {class: "scroll facts wrap"}, layerRuleTable(this.rules.get(name))));
    this.charts = CHARTS.slice(before);
    for (const chart of this.charts) chart.draw();
  }
}

// Rules differ only once amax was measured more than once.
function fewMeasurements(study, view) {
  const steps = Math.max(0, ...[...view.rules.values()].flat().map(r => r.steps || 0));
  const times = Math.ceil(steps / (study.interval || 1));
  if (times > 3) return null;
  return el("p", {class: "notice"}, el("b", null, "Few measurements:"), `in ${steps} steps amax was measured ${times === 1 ? "once" : times + " times"}, ` +
    "which says little about the rules. More calibration samples, or --set delayed.interval=1, give more.");
}

function delayedSection() {
  const study = REPORT.delayed_study;
  if (!study) return;
  const view = new DelayedView(DATA.delayed);
  section("delayed", "Delayed scaling",
    el("p", null, "The calibration samples taken as the steps of a training run: how far each rule would have been off, had it estimated " +
      `amax from the steps before (history of ${plain(study.history)}, measured every ${study.interval === 1 ? "step" : plain(study.interval) + " steps"}, ` +
      `α ${plain(study.alpha)}).`),
    el("p", {class: "soft"}, "A step is exceeded when its amax lies above the estimate, an element overflows beyond the format's largest value. “Clipped” " +
      "is what remains when values are clipped to the estimate first, as some training recipes do; ★ is the best by that. The rule " +
      "current is not delayed: it takes a step's own amax, for which the values are read twice, and is what the others are compared with."),
    fewMeasurements(study, view),
    el("div", {class: "scroll facts wrap"}, rankingTable(study.ranking || [])),
    ...(view.rules.size ? [el("h3", null, "Layers"),
      el("div", {class: "scroll low", tabindex: "0", role: "region", "aria-label": "The best rule of every layer"}, view.layersTable()),
      el("div", {class: "tools"}, el("label", {for: "delayed-layer"}, "Layer", view.select)), view.place] : []));
  delayedView = view;
  if (view.rules.size) view.show(view.rules.has(CHOSEN) ? CHOSEN : [...view.rules.keys()][0]);
}
