// Opens HTML reports in a real browser and uses them as a person does: node browser_test.mjs JOB.json
//
// JOB: {chromium, shots, pages: [{name, html, report, kv, formats, evil}]}; NODE_PATH holds playwright-core. Every page
// is loaded, sorted, filtered, operated with the keyboard, and photographed in the light, in the dark and on paper.
import assert from "node:assert/strict";
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";

const { chromium } = createRequire(path.join(process.env.NODE_PATH, "x.js"))("playwright-core");
const job = JSON.parse(fs.readFileSync(process.argv[2], "utf8"));
const SETTLE = 250;  // ms for observers and redrawing

const browser = await chromium.launch({
  executablePath: job.chromium, headless: true,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync"],
});

async function open({html}) {
  const context = await browser.newContext({viewport: {width: 1280, height: 900}, colorScheme: "light"});
  const page = await context.newPage();
  const problems = [];
  page.on("console", message => problems.push(`console ${message.type()}: ${message.text()}`));
  page.on("pageerror", error => problems.push(`error: ${error.message}`));
  page.on("dialog", dialog => { problems.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  const url = pathToFileURL(html).href;
  page.on("request", request => { if (request.url().split("#")[0] !== url) problems.push(`request: ${request.url().slice(0, 100)}`); });
  await page.goto(url);
  await page.waitForTimeout(SETTLE);
  return {page, problems, context};
}

const columnTexts = (page, name) => page.evaluate(column => {
  const heads = [...document.querySelectorAll("#layer-table thead button")].map(b => b.dataset.column);
  return [...document.querySelectorAll("#layer-table tbody tr")].map(tr => tr.cells[heads.indexOf(column)].textContent);
}, name);

// Numbers as shown; what was not measured is NaN, exact is infinite.
const numbers = texts => texts.map(t => t === "-" ? NaN : t === "exact" ? Infinity : parseFloat(t.replace(/^[▼▽] /, "")));

function assertSorted(values, sign, what) {
  const known = values.filter(v => !Number.isNaN(v));
  for (let i = 1; i < known.length; ++i) assert.ok(sign * known[i] >= sign * known[i - 1], `${what}: ${known[i - 1]} before ${known[i]}`);
  assert.ok(values.slice(known.length).every(v => Number.isNaN(v)), `${what}: what was not measured comes last`);
}

async function checkCards(page, report) {
  const text = await page.locator("#summary").innerText();
  const quantized = report.layers.filter(l => l.status === "quantized").length;
  assert.match(text, new RegExp(`${quantized} of ${report.layers.length}`));
  assert.match(text, /Parameters quantized/);
  for (const output of report.network.outputs) {
    if (output.sqnr_db !== null && output.sqnr_db !== "inf") assert.ok(text.includes(output.sqnr_db.toFixed(2) + " dB"), output.name);
  }
  if (report.network.perplexity) assert.match(text, /Perplexity/);
  if (report.model.bytes_before) assert.match(text, /Size/);
  if (report.recipe.resolved) assert.equal((await page.locator("#run #recipe").innerText()).trim(), report.recipe.resolved.trim());
  assert.equal((await page.locator("#run #command").innerText()).trim(), report.run.command.trim());
}

// Every chart has ink of more than a few colours in it.
async function checkCharts(page, least) {
  const colours = await page.evaluate(() => [...document.querySelectorAll(".chart canvas")].map(canvas => {
    const data = new Uint32Array(canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.buffer);
    return new Set(data).size;
  }));
  assert.ok(colours.length >= least, `${colours.length} charts, expected ${least}`);
  for (const n of colours) assert.ok(n > 3, `a chart has ${n} colours: it is empty`);
  return colours.length;
}

async function checkSorting(page) {
  const column = "weight_sqnr";
  const head = page.locator(`#layer-table thead button[data-column=${column}]`);
  await head.click();
  assert.equal(await page.locator("#layer-table th[aria-sort=ascending]").innerText(), "weight dB ▴");
  assertSorted(numbers(await columnTexts(page, column)), 1, "rising");
  await head.press("Enter");  // it has the focus still, as a keyboard needs it
  assertSorted(numbers(await columnTexts(page, column)), -1, "falling");
  await page.locator("#layer-table thead button[data-column=layer]").click();
  const names = await columnTexts(page, "layer");
  assert.deepEqual(names, [...names].sort((a, b) => a.localeCompare(b, "en", {numeric: true})));
}

async function checkFilters(page, report) {
  const shown = () => page.locator("#layer-table tbody tr").count();
  const layers = report.layers;
  assert.equal(await shown(), layers.length);
  const part = layers[layers.length - 1].name.slice(-6).toLowerCase();
  await page.fill("#filter-text", part);
  assert.equal(await shown(), layers.filter(l => [l.name, l.op, l.reason].some(t => t.toLowerCase().includes(part))).length);
  await page.fill("#filter-text", "no layer has this name");
  assert.equal(await shown(), 0);
  await page.fill("#filter-text", "");
  await page.selectOption("#filter-status", "kept");
  assert.equal(await shown(), layers.filter(l => l.status === "kept").length);
  await page.selectOption("#filter-status", "");
  await page.selectOption("#filter-op", {value: layers[0].op});
  assert.equal(await shown(), layers.filter(l => l.op === layers[0].op).length);
  await page.selectOption("#filter-op", "");
  const main = l => [l.output, l.activation, l.weight].map(o => o && o.sqnr_db).find(v => v !== null && v !== undefined);
  const values = layers.map(main).filter(v => typeof v === "number").sort((a, b) => a - b);
  const limit = values[Math.floor(values.length / 2)];
  await page.fill("#filter-below", String(limit));
  assert.equal(await shown(), values.filter(v => v < limit).length);
  assert.match(await page.locator("#shown").innerText(), new RegExp(`^${values.filter(v => v < limit).length} of ${layers.length} layers`));
  await page.getByRole("button", {name: "Show all"}).click();
  assert.equal(await shown(), layers.length);
}

async function checkPicking(page, report) {
  const layer = report.layers.findLast(l => l.weight && l.weight.exponents_after);
  await page.locator("#layer-table button.pick").filter({hasText: layer.name}).first().press("Enter");
  await page.waitForTimeout(SETTLE);
  const chosen = await page.locator("#chosen-layer").innerText();
  assert.ok(report.layers.some(l => l.name === chosen && chosen.includes(layer.name)), chosen);
  assert.equal(await page.locator("#layer-table tr.chosen button.pick").innerText(), chosen);
  const picked = report.layers.find(l => l.name === chosen);
  const text = await page.locator("#layer").innerText();
  assert.match(text, /Exponents of the weight over the bands of/);
  if (typeof picked.weight.sqnr_db === "number") assert.ok(text.includes(picked.weight.sqnr_db.toFixed(2)));
  for (const band of picked.weight.exponents_after.bands) assert.match(text, new RegExp(`${band.bits} significant bit`));
  const bars = await page.locator("#layer .chart canvas").count();
  assert.equal(bars, [picked.weight, picked.activation].filter(o => o && o.exponents_before).length);
}

// With the keyboard alone: a chart, three layers to the right, Enter.
async function checkKeyboard(page, report) {
  const chart = page.locator("#depth .chart").first();
  await chart.focus();
  for (let i = 0; i < 3; ++i) await page.keyboard.press("ArrowRight");
  await page.keyboard.press("Enter");
  const third = report.layers[Math.min(2, report.layers.length - 1)].name;
  assert.equal(await page.locator("#chosen-layer").innerText(), third);
  assert.ok((await chart.innerText()).includes(third), "the legend names the layer under the cursor");
}

// The delayed rules that lose least when values are clipped to their estimate; of those that lose as much the one exceeded less.
function bestRules(rules, exceeded) {
  const delayed = rules.filter(r => r.rule !== "current");
  const sqnr = r => Number(r.clipped_mean_sqnr_db.toPrecision(6));  // what a page has
  const order = (a, b) => sqnr(b) - sqnr(a) || a[exceeded] - b[exceeded];
  const first = [...delayed].sort(order)[0];
  return delayed.filter(r => order(r, first) === 0).map(r => r.rule);
}

async function checkDelayed(page, study) {
  const rows = async caption => (await page.locator(`#delayed table[aria-label="${caption}"] tbody tr`).allInnerTexts()).map(t => t.split("\t"));
  const best = bestRules(study.ranking, "exceeded_rate");
  const ranking = await rows("The rules over all layers, best first");
  assert.deepEqual(ranking.map(r => r[0]), study.ranking.map(r => (best.includes(r.rule) ? "★ " : "") + r.rule));
  assert.deepEqual(ranking.map(r => r[5]), study.ranking.map(r => r.mean_sqnr_db.toFixed(2)));
  const layers = [...new Set(study.rules.map(r => r.layer))];
  const lines = await rows("The best rule of every layer");
  assert.deepEqual(lines.map(r => r[0].trim()), layers);
  for (const [i, layer] of layers.entries()) {
    const names = bestRules(study.rules.filter(r => r.layer === layer), "exceeded_elements");
    assert.equal(lines[i][1], names.length === 3 ? "all alike" : names.join(", "), layer);
  }

  const last = layers[layers.length - 1];
  await page.selectOption("#delayed-layer", last);
  await page.waitForTimeout(SETTLE);
  assert.match(await page.locator("#delayed").innerText(), new RegExp(`amax of the input of ${last}, step by step`));
  const rules = study.rules.filter(r => r.layer === last);
  assert.deepEqual((await rows("The rules for the chosen layer")).map(r => r[1]), rules.map(r => `${r.exceeded_steps} of ${r.steps}`));
  const trace = study.traces.find(t => t.layers.includes(last));
  const chart = page.locator("#delayed .chart");
  await chart.focus();
  for (let i = 0; i < 4; ++i) await page.keyboard.press("ArrowRight");
  const legend = new Map(await chart.locator(".u-legend tr").evaluateAll(rows => rows.map(row => [...row.cells].map(c => c.textContent))));
  for (const [name, value] of [["step", trace.steps[3]], ...["amax", "most_recent", "exp_smooth", "max"].map(k => [k, trace[k][3]])]) {
    const [number, ...mark] = legend.get(name).split(" ");
    assert.ok(Math.abs(Number(number) - value) <= 1e-4 * value, `${name} ${value}: ${number}`);
    assert.equal(mark.join(" "), name !== "step" && trace.amax[3] > value ? "▲ exceeded" : "", name);
  }
  // A layer that is chosen elsewhere is shown here as well.
  await page.locator("#layer-table button.pick").filter({hasText: layers[0]}).first().press("Enter");
  assert.equal(await page.locator("#delayed-layer").inputValue(), layers[0]);
}

// Contrast ratio of WCAG 2 between the page's text colours and what they stand on.
async function checkContrast(page, scheme) {
  const ratios = await page.evaluate(() => {
    const style = getComputedStyle(document.documentElement);
    const luminance = name => {
      const hex = style.getPropertyValue("--" + name).trim();
      const linear = [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16) / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
      return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
    };
    const ratio = (a, b) => (Math.max(luminance(a), luminance(b)) + 0.05) / (Math.min(luminance(a), luminance(b)) + 0.05);
    const result = {};
    for (const text of ["text", "soft", "link", "good", "warn", "bad"]) {
      for (const back of ["back", "panel", "mark"]) result[`${text} on ${back}`] = ratio(text, back);
    }
    for (let i = 1; i <= 8; ++i) result[`series-${i} on back`] = ratio(`series-${i}`, "back");
    return result;
  });
  for (const [pair, ratio] of Object.entries(ratios)) assert.ok(ratio >= 4.5, `${scheme}: ${pair} has a contrast of ${ratio.toFixed(2)}`);
}

const background = page => page.evaluate(() => getComputedStyle(document.body).backgroundColor);

async function photograph(page, name) {
  const shot = suffix => path.join(job.shots, `${name}-${suffix}`);
  await page.evaluate(() => scrollTo(0, 0));
  await page.screenshot({path: shot("light.png"), fullPage: true});
  await checkContrast(page, "light");
  await page.emulateMedia({colorScheme: "dark"});
  await page.waitForTimeout(SETTLE);
  assert.equal(await background(page), "rgb(15, 20, 25)");
  await checkContrast(page, "dark");
  await checkCharts(page, 1);
  await page.screenshot({path: shot("dark.png"), fullPage: true});
  await page.setViewportSize({width: 720, height: 1000});
  await page.emulateMedia({colorScheme: "dark", media: "print"});  // dark on the screen, paper stays white
  await page.waitForTimeout(SETTLE);
  assert.equal(await background(page), "rgb(255, 255, 255)");
  assert.equal(await page.locator(".tools").first().isVisible(), false);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(wide <= 720 + 2, `the page is ${wide} wide, the paper 720`);
  await page.screenshot({path: shot("print.png"), fullPage: true});
  await page.pdf({path: shot("print.pdf"), format: "A4", printBackground: true});
  assert.ok(fs.statSync(shot("print.pdf")).size > 20000);
  await page.emulateMedia({colorScheme: "light", media: "screen"});
  await page.setViewportSize({width: 400, height: 800});
  await page.waitForTimeout(SETTLE);
  await page.screenshot({path: shot("narrow.png")});
}

async function check(item) {
  const report = JSON.parse(fs.readFileSync(item.report, "utf8"));
  const {page, problems, context} = await open(item);
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.className), "skip", "the first stop of the Tab key");
  await checkCards(page, report);
  const charts = await checkCharts(page, item.charts);
  await checkFilters(page, report);
  await checkSorting(page);
  await checkPicking(page, report);
  await checkKeyboard(page, report);
  for (const text of item.texts || []) assert.ok((await page.locator("main").innerText()).includes(text), text);
  if (item.delayed) await checkDelayed(page, report.delayed_study);
  if (item.formats) {
    assert.match(await page.locator("#formats").innerText(), /★/);
    await page.selectOption("#compare-operand", "activation");
    assert.match(await page.locator("#formats h3").first().innerText(), /activation/);
  }
  await photograph(page, item.name);
  assert.equal(await page.evaluate(() => window.broken), undefined, "text of the model ran as a script");
  assert.equal(await page.locator("img").count(), 0);
  assert.deepEqual(problems, []);
  await context.close();
  console.log(`${item.name}: ${report.layers.length} layers, ${charts} charts, no console message, no request`);
}

try {
  for (const item of job.pages) await check(item);
} finally {
  await browser.close();
}
