"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const peaks = data.peaks;
// Of the CPU, or of another device in TOP/s; what was not measured is not there.
const products = [["int8", peaks.i8_gops, peaks.i8_tops], ["f8_e4m3", undefined, peaks.f8_e4m3_tops],
  ["bf16", peaks.bf16_gflops, peaks.bf16_tops], ["f16", undefined, peaks.f16_tops], ["f32", peaks.f32_gflops, peaks.f32_tops]];
const roofs = products.map(([name, gops, tops]) => [name, gops ?? 1000 * tops]).filter((r) => r[1] > 0).sort((a, b) => b[1] - a[1]);
const memory = peaks.read_gb_per_s ?? peaks.copy_gb_per_s;
const ops = [...new Set(data.results.map((r) => r.op))].sort();
const colour = (op) => `hsl(${(ops.indexOf(op) * 360) / ops.length} 62% 48%)`;
const number = (v, digits = 1) => v.toLocaleString("en", {minimumFractionDigits: digits, maximumFractionDigits: digits});
const rate = (gops) => (gops < 10000 ? `${number(gops, 0)} GOP/s` : `${number(gops / 1000)} TOP/s`);
const state = {chosen: null, hovered: null, sort: memory ? "percent_of_peak" : "ms", descending: true, search: ""};

function element(tag, text, className) {
  const e = document.createElement(tag);
  if (text !== undefined) e.textContent = text;
  if (className) e.className = className;
  return e;
}

function showCards() {
  const cards = roofs.map(([name, value]) => [rate(value), `${name} products${peaks.target ? `, ${peaks.target}` : ""}`]);
  if (peaks.device) cards.unshift([peaks.device, "device"]);
  if (peaks.read_gb_per_s) cards.push([`${number(peaks.read_gb_per_s)} GB/s`, "memory read"]);
  if (peaks.copy_gb_per_s) cards.push([`${number(peaks.copy_gb_per_s)} GB/s`, "memory copy"]);
  if (peaks.threads) cards.push([`${peaks.threads}`, peaks.threads === 1 ? "thread" : "threads"]);
  if (peaks.clock_ghz) cards.push([`${number(peaks.clock_ghz, 2)} GHz`, "clock"]);
  for (const [value, label] of cards) {
    const card = element("div", undefined, "card");
    card.append(element("b", value), element("span", label));
    byId("cards").append(card);
  }
}

// Points need operations and bytes; pure movers have none of the first.
const points = data.results.filter((r) => r.flops > 0 && r.bytes > 0).map((r) => ({
  r, x: r.flops / r.bytes, y: r.gflop_per_s
}));
const margin = {left: 64, right: 150, top: 16, bottom: 42};
let scale = null;

function makeScale(width, height) {
  const xs = points.map((p) => p.x), ys = points.map((p) => p.y);
  const highest = Math.max(...roofs.map((r) => r[1]), ...ys);
  const x0 = Math.floor(Math.log10(Math.min(0.1, ...xs))), x1 = Math.ceil(Math.log10(Math.max(1000, ...xs)));
  const y0 = Math.floor(Math.log10(Math.min(1, ...ys))), y1 = Math.log10(highest * 1.6);
  return {
    x0, x1, y0, y1,
    x: (v) => margin.left + ((Math.log10(v) - x0) / (x1 - x0)) * (width - margin.left - margin.right),
    y: (v) => height - margin.bottom - ((Math.log10(v) - y0) / (y1 - y0)) * (height - margin.top - margin.bottom)
  };
}

function drawGrid(c, width, height) {
  c.strokeStyle = style("--line");
  c.fillStyle = style("--soft");
  c.textAlign = "center";
  for (let e = scale.x0; e <= scale.x1; ++e) {
    const x = scale.x(10 ** e);
    c.beginPath(), c.moveTo(x, margin.top), c.lineTo(x, height - margin.bottom), c.stroke();
    c.fillText(`${10 ** e}`, x, height - margin.bottom + 16);
  }
  c.fillText("operations per byte", (margin.left + width - margin.right) / 2, height - 6);
  c.textAlign = "right";
  for (let e = scale.y0; e <= scale.y1; ++e) {
    const y = scale.y(10 ** e);
    c.beginPath(), c.moveTo(margin.left, y), c.lineTo(width - margin.right, y), c.stroke();
    c.fillText(`${10 ** e}`, margin.left - 8, y + 4);
  }
  c.save();
  c.translate(14, height / 2), c.rotate(-Math.PI / 2);
  c.textAlign = "center";
  c.fillText("GOP/s", 0, 0);
  c.restore();
}

function drawRoofs(c) {
  if (!memory) return;
  const left = 10 ** scale.x0, right = 10 ** scale.x1, highest = roofs.length ? roofs[0][1] : 10 ** scale.y1;
  const from = Math.max(left, 10 ** scale.y0 / memory);
  c.textAlign = "left";
  c.strokeStyle = c.fillStyle = style("--ink");
  c.beginPath(), c.moveTo(scale.x(from), scale.y(from * memory));
  c.lineTo(scale.x(Math.min(right, highest / memory)), scale.y(Math.min(right * memory, highest))), c.stroke();
  let above = -Infinity;  // where the last name stands: similar roofs must not write over each other
  for (const [name, top] of roofs) {
    const y = scale.y(top);
    above = Math.max(y + 4, above + 13);
    if (top / memory < right) c.beginPath(), c.moveTo(scale.x(top / memory), y), c.lineTo(scale.x(right), y), c.stroke();
    c.fillText(`${name} ${rate(top)}`, scale.x(right) + 6, above);
  }
}

function draw() {
  const canvas = byId("roofline"), ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth, height = 520;
  canvas.width = width * ratio, canvas.height = height * ratio, canvas.style.height = `${height}px`;
  const c = canvas.getContext("2d");
  c.scale(ratio, ratio);
  c.font = "12px system-ui, sans-serif";
  scale = makeScale(width, height);
  drawGrid(c, width, height);
  drawRoofs(c);
  for (const p of points) {
    const isMarked = p.r === state.chosen || p === state.hovered;
    c.globalAlpha = matches(p.r) ? 1 : 0.12;
    c.fillStyle = colour(p.r.op);
    c.beginPath(), c.arc(scale.x(p.x), scale.y(p.y), isMarked ? 7 : 4.5, 0, 7), c.fill();
    if (isMarked) c.strokeStyle = style("--ink"), c.stroke();
  }
  c.globalAlpha = 1;
  const p = state.hovered;
  if (!p) return;
  const share = p.r.percent_of_peak === undefined ? "" : `, ${number(p.r.percent_of_peak, 0)} % of the peak (${p.r.products})`;
  const text = `${p.r.kernel}, ${p.r.case}: ${rate(p.y)}${share}`;
  const x = Math.min(scale.x(p.x) + 10, width - c.measureText(text).width - 12);
  c.fillStyle = style("--panel"), c.fillRect(x - 4, scale.y(p.y) - 26, c.measureText(text).width + 8, 18);
  c.fillStyle = style("--ink"), c.textAlign = "left", c.fillText(text, x, scale.y(p.y) - 13);
}

function nearest(event) {
  const box = byId("roofline").getBoundingClientRect();
  let best = null, least = 12;
  for (const p of points) {
    const d = Math.hypot(scale.x(p.x) - (event.clientX - box.left), scale.y(p.y) - (event.clientY - box.top));
    if (d < least) best = p, least = d;
  }
  return best;
}

const columns = [["op", "operator"], ["case", "case"], ["kernel", "kernel"], ["ms", "ms", 4], ["gflop_per_s", "GOP/s", 1],
  ["gb_per_s", "GB/s", 1], ["percent_of_peak", "% of peak", 0]].filter(([key]) => memory || key !== "percent_of_peak");

function matches(r) {
  return !state.search || `${r.op} ${r.case} ${r.kernel}`.toLowerCase().includes(state.search);
}

function showTable() {
  const head = byId("kernels").tHead, body = byId("kernels").tBodies[0], row = element("tr");
  for (const [key, label, digits] of columns) {
    const cell = element("th", label + (state.sort === key ? (state.descending ? " ↓" : " ↑") : ""), digits === undefined ? "" : "number");
    cell.onclick = () => {
      state.descending = state.sort === key ? !state.descending : digits !== undefined;
      state.sort = key;
      showTable();
    };
    row.append(cell);
  }
  head.replaceChildren(row);
  const value = (r) => r[state.sort] ?? -1;
  const order = (a, b) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0);
  const found = data.results.filter(matches).sort((a, b) => (state.descending ? order(b, a) : order(a, b)));
  byId("n-found").textContent = `${found.length} of ${data.results.length}`;
  body.replaceChildren(...found.map((r) => {
    const line = element("tr", undefined, r === state.chosen ? "chosen" : "");
    for (const [key, , digits] of columns)
      line.append(element("td", digits === undefined ? r[key] : r[key] === undefined ? "–" : number(r[key], digits), digits === undefined ? "" : "number"));
    line.onclick = () => choose(r);
    return line;
  }));
}

function choose(r) {
  state.chosen = r;
  showTable();
  draw();
}

document.title = byId("title").textContent = data.title;
byId("version").textContent = `graft ${data.version}. Bytes are counted as read and written once; what stays in a cache may exceed the memory line.`;
for (const op of ops) {
  const item = element("span"), mark = element("i");
  mark.style.background = colour(op);
  item.append(mark, op.replace(/^graft\./, ""));
  byId("legend").append(item);
}
byId("search").oninput = (event) => {
  state.search = event.target.value.toLowerCase();
  showTable();
  draw();
};
byId("roofline").onmousemove = (event) => {
  const p = nearest(event);
  if (p !== state.hovered) state.hovered = p, draw();
};
byId("roofline").onclick = (event) => {
  const p = nearest(event);
  if (p) choose(p.r), document.querySelector("tr.chosen")?.scrollIntoView({block: "nearest"});
};
window.addEventListener("resize", draw);
showCards();
showTable();
draw();
