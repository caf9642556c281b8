// Charts with uPlot. Every chart can be drawn again: for another width, in the dark, on paper.

const CHARTS = [];
const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3], [4, 4], [14, 4], [1, 5], [6, 2, 1, 2]];
// A line of the legend as it is in the chart: dash pattern and colour.
function dashFill(dash, color) {
  if (dash.length === 0) return color;
  let at = 0;
  const stops = dash.map((length, i) => `${i % 2 ? "transparent" : color} ${at}px ${at += length}px`);
  return `repeating-linear-gradient(90deg, ${stops.join(", ")})`;
}

function theme() {
  const style = getComputedStyle(document.documentElement);
  return name => style.getPropertyValue("--" + name).trim();
}

class Chart {
  // options(color, width): those of uPlot; data: x and the series.
  constructor(host, options, data) {
    Object.assign(this, {host, options, data, plot: null, width: 0});
    CHARTS.push(this);
    this.watch = new ResizeObserver(() => { if (this.host.clientWidth !== this.width) this.draw(); });
    this.watch.observe(host);
  }
  draw() {
    this.width = this.host.clientWidth;
    if (this.width === 0) return;
    if (this.plot) this.plot.destroy();
    const width = matchMedia("print").matches ? Math.min(this.width, 680) : this.width;
    this.plot = new uPlot(this.options(theme(), width), this.data, this.host);
  }
  remove() {
    this.watch.disconnect();
    CHARTS.splice(CHARTS.indexOf(this), 1);
    if (this.plot) this.plot.destroy();
  }
}

function redrawAll() { for (const chart of CHARTS) chart.draw(); }
for (const query of ["(prefers-color-scheme: dark)", "print"]) matchMedia(query).addEventListener("change", redrawAll);
window.addEventListener("beforeprint", redrawAll);
window.addEventListener("afterprint", redrawAll);

function axis(color, label, more) {
  return {label, labelSize: 22, labelFont: "13px system-ui, sans-serif", font: "12px system-ui, sans-serif",
    stroke: color("soft"), grid: {stroke: color("line"), width: 1}, ticks: {stroke: color("line")}, ...more};
}

// Differences below a tenth of a decibel are nobody's concern: they shall not fill a chart.
function decibelRange(low, high) {
  const least = 2;
  const middle = (low + high) / 2, half = Math.max(high - low, least) * 0.55;
  return [middle - half, middle + half];
}

// Lines over `positions`. `series` have {label, color, values, drawn}: what is told and what is drawn (null: nothing).
// nameOf(i) is told of a place; y and yAxis are uPlot's; pick(i): a click or the Enter key on a place.
// Returns the host to put into the page.
function lineChart({label, nameLabel, nameOf, positions, series, text, xAxis, y, yAxis, paths, sync, hooks, pick}) {
  const host = el("div", {class: "chart", tabindex: "0", role: "img", "aria-label": label});
  const options = (color, width) => ({
    width, height: 300, padding: [10, 12, 0, 0],
    cursor: {focus: {prox: 24}, points: {size: 9}, ...(sync ? {sync: {key: sync, setSeries: false}} : {})},
    focus: {alpha: 0.35},
    scales: {x: {time: false, range: (u, low, high) => [low - 0.5, high + 0.5]}, y},
    axes: [axis(color, xAxis, {incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 100000]}),
      axis(color, yAxis.label, {size: 68, ...yAxis})],
    series: [{label: nameLabel, value: (u, v, s, i) => i === null || i === undefined ? "-" : nameOf(i)},
      ...series.map((s, i) => ({label: s.label, stroke: color("series-" + (s.color || i + 1)), width: 2, spanGaps: true,
        dash: DASHES[i % DASHES.length], points: {show: positions.length <= 130, size: 6, fill: color("back")},
        paths: paths ? paths(i) : undefined,
        value: (u, v, series, at) => text(at === null || at === undefined ? null : s.values[at], at, s)}))],
    legend: {markers: {width: 0, fill: (u, i) => i === 0 ? "none" : dashFill(DASHES[(i - 1) % DASHES.length], u.series[i].stroke())}},
    hooks: hooks ? hooks(color) : {},
  });
  const chart = new Chart(host, options, [positions, ...series.map(s => s.drawn)]);
  chart.draw();
  let at = -1;
  host.addEventListener("click", event => {
    if (pick && event.target.closest(".u-over") && chart.plot.cursor.idx !== null) pick(chart.plot.cursor.idx);
  });
  host.addEventListener("keydown", event => {
    const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
    if (step) {
      at = Math.max(0, Math.min(positions.length - 1, at < 0 && step < 0 ? 0 : at + step));
      chart.plot.setCursor({left: chart.plot.valToPos(positions[at], "x"), top: 10});
      event.preventDefault();
    } else if (pick && event.key === "Enter" && at >= 0) {
      pick(at);
    }
  });
  return host;
}

// A line per series over the depth of the model. names[i] belongs to x = positions[i];
// pick(i): a click or the Enter key on a layer. Returns a node to put into the page, or null.
function depthChart({title, unit, kind, logarithmic, names, positions, series, pick}) {
  const usable = series.filter(s => s.values.some(v => v !== null && Number.isFinite(v)));
  if (usable.length === 0) return null;
  const all = usable.flatMap(s => s.values).filter(v => v !== null && v > 0);
  if (logarithmic && all.length === 0) return el("div", null, el("h3", null, title), el("p", {class: "soft"}, "None: all are 0."));
  // Decades, with zero one decade below everything else.
  const floor = logarithmic ? Math.floor(Math.log10(Math.min(...all))) - 1 : 0;
  const drawn = v => v === null || !Number.isFinite(v) ? null : !logarithmic ? v : v > 0 ? Math.log10(v) : floor;
  const exact = usable.reduce((n, s) => n + s.values.filter(v => v === Infinity).length, 0);
  const host = lineChart({positions, nameLabel: "layer", nameOf: i => names[i], sync: "depth", pick,
    label: `${title}: ${usable.map(s => s.label).join(", ")} over ${names.length} layers. Left and right arrow keys move, ` +
      "Enter chooses a layer; the table below has the numbers.",
    series: usable.map(s => ({...s, drawn: s.values.map(drawn)})),
    text: v => v === null || v === undefined ? "-" : FORMATS[kind](v) + (kind === "decibel" ? " dB" : ""),
    xAxis: "layer, in the model's order",
    y: {range: (u, low, high) => logarithmic ? [floor - 0.2, Math.ceil(high + 0.01)] : decibelRange(low, high)},
    yAxis: {label: unit, incrs: logarithmic ? [1, 2, 5] : undefined, values: (u, ticks) => ticks.map(v =>
      !logarithmic ? significant(v, 4) : v === floor ? "0" : v > 0 ? "" : significant(100 * 10 ** v, 1) + " %")},
    hooks: color => ({drawAxes: [u => markChosen(u, names, color)]})});
  return el("div", null, el("h3", null, title), host,
    exact > 0 ? el("p", {class: "soft"}, `${exact} exact values (infinite SQNR) are not drawn.`) : null);
}

let CHOSEN = null;  // name of the chosen layer
function markChosen(u, names, color) {
  const i = names.indexOf(CHOSEN);
  if (i < 0) return;
  const x = Math.round(u.valToPos(u.data[0][i], "x", true));
  const c = u.ctx;
  c.save();
  c.strokeStyle = color("text");
  c.setLineDash([4, 4]);
  c.beginPath();
  c.moveTo(x, u.bbox.top);
  c.lineTo(x, u.bbox.top + u.bbox.height);
  c.stroke();
  c.restore();
}

// Shares of elements per exponent, after scaling as filled bars and before as outlines, over the format's bands.
function exponentChart(title, before, after, bands) {
  const given = [before, after].filter(Boolean);
  const ends = given.filter(e => e.counts && e.counts.length);
  if (ends.length === 0) return null;
  const total = e => (e.zeros || 0) + e.counts.reduce((a, b) => a + b, 0);
  const first = Math.min(...ends.map(e => e.first), ...bands.map(b => b.first)) - 1;
  const last = Math.max(...ends.map(e => e.first + e.counts.length - 1), ...bands.map(b => b.last)) + 1;
  const xs = Array.from({length: last - first + 1}, (_, i) => first + i);
  const shares = e => xs.map(x => e ? (e.counts[x - e.first] || 0) / total(e) : null);
  const host = el("div", {class: "chart", role: "img", "aria-label":
    `${title}: share of elements per exponent; the table beside it has the shares per band.`});
  const percent = (u, v) => v === null || v === undefined ? "-" : FORMATS.share(v);
  const options = (color, width) => ({
    width, height: 260, padding: [24, 8, 0, 0],
    cursor: {points: {show: false}, drag: {x: false, y: false}},
    scales: {x: {time: false, range: [first - 0.5, last + 0.5]}, y: {range: (u, low, high) => [0, high * 1.08 || 1]}},
    axes: [axis(color, "exponent, floor(log2 |x|)", {incrs: [1, 2, 4, 8, 16, 32]}),
      axis(color, "share of elements", {size: 62, values: (u, ticks) => ticks.map(v => significant(100 * v, 3) + " %")})],
    series: [{label: "exponent", value: (u, v) => v === null ? "-" : `2^${v}`},
      {label: "before scaling", stroke: color("series-2"), width: 2, dash: [6, 3], points: {show: false}, value: percent,
        paths: uPlot.paths.bars({size: [1, 60]}), show: Boolean(before)},
      {label: "after scaling", stroke: color("series-1"), fill: color("series-1") + "99", width: 1, points: {show: false},
        value: percent, paths: uPlot.paths.bars({size: [0.8, 40]}), show: Boolean(after)}],
    legend: {markers: {width: 0, fill: (u, i) => i === 0 ? "none" : dashFill(i === 1 ? [6, 3] : [], u.series[i].stroke())}},
    hooks: {drawClear: [u => drawBands(u, bands, first, last, color)]},
  });
  const chart = new Chart(host, options, [xs, shares(before), shares(after)]);
  chart.draw();
  return {chart, node: el("div", null, el("h3", null, title), host)};
}

function drawBands(u, bands, first, last, color) {
  const c = u.ctx;
  const {top, height} = u.bbox;
  const edge = x => Math.round(u.valToPos(x - 0.5, "x", true));
  c.save();
  c.font = `${12 * devicePixelRatio}px system-ui, sans-serif`;
  c.textAlign = "center";
  const area = (from, to, fill, label) => {
    const left = edge(from), right = edge(to);
    if (fill) {
      c.fillStyle = fill;
      c.fillRect(left, top, right - left, height);
    }
    c.strokeStyle = color("line");
    c.strokeRect(left, top, right - left, height);
    c.fillStyle = color("soft");
    if (c.measureText(label).width < right - left) c.fillText(label, (left + right) / 2, top - 7 * devicePixelRatio);
  };
  for (const b of bands) area(b.first, b.last + 1, color(b.bits > 4 ? "band-more" : "band-" + b.bits), bandLabel(b.bits, b));
  if (bands.length) {
    area(first, bands[0].first, null, "below");
    area(bands[bands.length - 1].last + 1, last + 1, null, "above");
  }
  c.restore();
}

function bandLabel(bits, band) {
  const wide = !band || band.last - band.first >= 3;
  return wide ? `${bits} bit${bits > 1 ? "s" : ""}` : String(bits);
}
