// Runs models in npm's onnxruntime-node, an ONNX Runtime that is not ours, and compares two of them. NODE_PATH must have it.
//
//   node stock_ort.js run MODEL OUT_DIR INPUT.npy...        first output of each input, as OUT_DIR/<input's name>
//   node stock_ort.js all MODEL OUT_DIR INPUT.npy...        every output, as OUT_DIR/<number>_<input's name>
//   node stock_ort.js cost ROUNDS MODELS INPUT.npy...        JSON: per model of a comma-separated list the processor time in ms to
//                                                            load it, and of a run: medians of rounds in which models take turns
//   node stock_ort.js compare REFERENCE OTHER INPUT.npy...  JSON: per output SQNR in dB and argmax agreement
'use strict';
const fs = require('fs');
const path = require('path');
const ort = require('onnxruntime-node');

const kTypes = {'<f4': ['float32', Float32Array], '<i8': ['int64', BigInt64Array]};

function readNpy(file) {
  const bytes = fs.readFileSync(file);
  const headerBytes = bytes.readUInt16LE(8);
  const header = bytes.toString('latin1', 10, 10 + headerBytes);
  const [type, Array] = kTypes[/'descr': '([^']*)'/.exec(header)[1]];
  if (!/'fortran_order': False/.test(header)) throw new Error(`${file}: Fortran order`);
  const shape = /'shape': \(([^)]*)\)/.exec(header)[1].split(',').filter((s) => s.trim()).map(Number);
  const data = bytes.buffer.slice(bytes.byteOffset + 10 + headerBytes, bytes.byteOffset + bytes.length);
  return new ort.Tensor(type, new Array(data), shape);
}

function writeNpy(file, tensor) {
  const shape = tensor.dims.length === 1 ? `${tensor.dims[0]},` : tensor.dims.join(', ');
  let header = `{'descr': '<f4', 'fortran_order': False, 'shape': (${shape}), }`;
  header = header.padEnd(64 * Math.ceil((header.length + 11) / 64) - 11) + '\n';
  const start = Buffer.from('\x93NUMPY\x01\x00..', 'latin1');
  start.writeUInt16LE(header.length, 8);
  const data = Buffer.from(tensor.data.buffer, tensor.data.byteOffset, tensor.data.byteLength);
  fs.writeFileSync(file, Buffer.concat([start, Buffer.from(header, 'latin1'), data]));
}

function load(model) {
  return ort.InferenceSession.create(
      model, {intraOpNumThreads: 1, interOpNumThreads: 1, logSeverityLevel: 3});
}

// Index of the largest element of each row along the last axis.
function argmaxRows(tensor) {
  const width = tensor.dims[tensor.dims.length - 1];
  const rows = [];
  for (let start = 0; start < tensor.data.length; start += width) {
    let best = start;
    for (let i = start; i < start + width; ++i) {
      if (tensor.data[i] > tensor.data[best]) best = i;
    }
    rows.push(best - start);
  }
  return rows;
}

async function run(model, outDir, files, all) {
  const session = await load(model);
  const names = all ? session.outputNames : session.outputNames.slice(0, 1);
  for (const file of files) {
    const results = await session.run({[session.inputNames[0]]: readNpy(file)}, names);
    names.forEach((name, i) => {
      const number = all ? `${i}_` : '';
      writeNpy(path.join(outDir, number + path.basename(file)), results[name]);
    });
  }
}

async function compare(referenceFile, otherFile, files) {
  const [reference, other] = [await load(referenceFile), await load(otherFile)];
  const sums = new Map(reference.outputNames.map(
      (name) => [name, {name, signal: 0, noise: 0, rows: 0, agreeing: 0}]));
  for (const file of files) {
    const feeds = {[reference.inputNames[0]]: readNpy(file)};
    const expected = await reference.run(feeds);
    const found = await other.run(feeds);
    for (const [name, sum] of sums) {
      const [x, y] = [expected[name], found[name]];
      if (String(x.dims) !== String(y.dims)) throw new Error(`${name}: ${x.dims} and ${y.dims}`);
      for (let i = 0; i < x.data.length; ++i) {
        sum.signal += x.data[i] * x.data[i];
        sum.noise += (x.data[i] - y.data[i]) ** 2;
      }
      const [rowsOfX, rowsOfY] = [argmaxRows(x), argmaxRows(y)];
      sum.rows += rowsOfX.length;
      sum.agreeing += rowsOfX.filter((index, row) => index === rowsOfY[row]).length;
    }
  }
  return [...sums.values()].map(({name, signal, noise, rows, agreeing}) => ({
    name,
    sqnr_db: noise === 0 ? 'inf' : 10 * Math.log10(signal / noise),
    argmax_agreement: agreeing / rows,
  }));
}

async function cost(rounds, models, files) {
  const now = () => {
    const used = process.cpuUsage();
    return (used.user + used.system) / 1000;
  };
  const median = (times) => times.sort((a, b) => a - b)[times.length >> 1];
  const inputs = files.map(readNpy);
  const contenders = models.map((model) => ({model, loads: [], runs: []}));
  for (let round = 0; round < rounds; ++round) {
    for (const contender of contenders) {
      let start = now();
      const session = await load(contender.model);
      contender.loads.push(now() - start);
      const run = (input) => session.run({[session.inputNames[0]]: input});
      await run(inputs[0]);
      start = now();
      for (const input of inputs) await run(input);
      contender.runs.push((now() - start) / inputs.length);
      await session.release();
    }
  }
  return contenders.map(({model, loads, runs}) => ({model, load_ms: median(loads), run_ms: median(runs)}));
}

async function main([command, ...rest]) {
  if (command === 'run' || command === 'all') {
    return run(rest[0], rest[1], rest.slice(2), command === 'all');
  }
  if (command === 'compare') {
    return console.log(JSON.stringify(await compare(rest[0], rest[1], rest.slice(2))));
  }
  if (command === 'cost') {
    return console.log(JSON.stringify(await cost(Number(rest[0]), rest[1].split(','), rest.slice(2))));
  }
  throw new Error(`unknown command ${command}`);
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error.message);
  process.exit(1);
});
