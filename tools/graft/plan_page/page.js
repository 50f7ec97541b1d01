'use strict';
// Draws what `graft plan` found. The numbers stand in the element #data; nothing is fetched.
const page = JSON.parse(document.getElementById('data').textContent);
const $ = id => document.getElementById(id);
const make = (tag, text, parent, name) => {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (name) element.className = name;
  if (parent) parent.append(element);
  return element;
};

const formatBytes = n => {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  for (; n >= 1000 && unit < 4; ++unit) n /= 1024;
  return (unit ? n.toFixed(1) : n) + ' ' + units[unit];
};
const formatCount = n => {
  const units = ['', 'k', 'M', 'G', 'T', 'P'];
  let unit = 0;
  for (; n >= 1000 && unit < 5; ++unit) n /= 1000;
  return (unit ? n.toFixed(1) : n.toFixed(0)) + ' ' + units[unit];
};
const shortOp = name => name.replace(/^graft\./, '').replace(/\.v\d+$/, '');

// Colours that stay apart for those who see fewer of them; the most frequent operators get them in order.
const palette = ['#4477aa', '#ee6677', '#228833', '#ccbb44', '#66ccee', '#aa3377', '#ee8866', '#44bb99', '#77aadd', '#999933'];
const other = '#9a9a9a';

let stage, colours, chosen = -1, shown = [], sortKey = 'index', sortUp = true;
const view = {x: 0, y: 0, scale: 1};

const hasTimes = () => stage.steps.length > 0 && stage.steps[0].ms !== undefined;
// Without measurements a step is as long as it moves bytes: what bounds most of them.
const weight = step => hasTimes() ? step.ms : step.bytes;
const ink = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function prepare(canvas) {
  const ratio = window.devicePixelRatio || 1, height = Number(canvas.dataset.height || canvas.height);
  canvas.dataset.height = height;
  canvas.width = canvas.clientWidth * ratio;
  canvas.height = height * ratio;
  canvas.style.height = height + 'px';
  const context = canvas.getContext('2d');
  context.scale(ratio, ratio);
  context.font = '11px system-ui, "DejaVu Sans", sans-serif';
  return {context, width: canvas.clientWidth, height};
}

function chooseColours() {
  const counts = new Map();
  for (const step of stage.steps) counts.set(step.op, (counts.get(step.op) || 0) + weight(step));
  const order = [...counts.keys()].sort((a, b) => counts.get(b) - counts.get(a));
  colours = new Map(order.map((op, i) => [op, palette[i] || other]));
  const legend = $('legend');
  legend.replaceChildren();
  order.slice(0, palette.length).forEach(op => {
    const entry = make('span', undefined, legend);
    make('i', undefined, entry).style.background = colours.get(op);
    entry.append(shortOp(op));
  });
  if (order.length > palette.length) {
    const entry = make('span', undefined, legend);
    make('i', undefined, entry).style.background = other;
    entry.append('other');
  }
}

function drawCards() {
  const sum = f => stage.steps.reduce((n, step) => n + f(step), 0), m = stage.memory;
  const cards = [
    [stage.steps.length, stage.steps.length === 1 ? 'step' : 'steps'],
    [sum(s => s.fusion ? 1 : 0), 'of them fused'],
    [formatCount(sum(s => s.flops)) + 'FLOP', 'arithmetic'],
    [formatBytes(sum(s => s.bytes)), 'read and written'],
    [formatBytes(m.arena_bytes), 'arena (' + formatBytes(m.naive_bytes) + ' unshared)'],
    [formatBytes(m.constant_bytes + m.packed_bytes), 'weights, ' + formatBytes(m.packed_bytes) + ' packed'],
    [formatBytes(m.peak_bytes), 'peak memory'],
  ];
  if (hasTimes()) cards.splice(2, 0, [sum(s => s.ms).toFixed(2) + ' ms', 'measured']);
  $('cards').replaceChildren();
  for (const [value, label] of cards) {
    const card = make('div', undefined, $('cards'), 'card');
    make('b', value, card);
    make('span', label, card);
  }
}

// One row for each device; a step is a bar where it runs.
function drawTimeline() {
  const canvas = $('timeline'), rows = stage.devices.length;
  canvas.dataset.height = 40 + rows * 46;
  const {context, width, height} = prepare(canvas), left = 70, right = width - 14;
  const total = stage.steps.reduce((n, step) => n + weight(step), 0) || 1;
  let at = left;
  stage.steps.forEach((step, i) => {
    const bar = (right - left) * weight(step) / total, y = 14 + 46 * Math.max(0, stage.devices.indexOf(step.device));
    context.fillStyle = colours.get(step.op);
    context.fillRect(at, y, Math.max(bar - (bar > 3 ? 0.5 : 0), 0.3), 34);
    if (i === chosen) {
      context.strokeStyle = ink('--mark');
      context.lineWidth = 2;
      context.strokeRect(at, y - 3, Math.max(bar, 2), 40);
    }
    step.bar = [at, at + bar];
    at += bar;
  });
  context.fillStyle = ink('--soft');
  stage.devices.forEach((device, i) => context.fillText(device, 12, 35 + 46 * i));
  const unit = hasTimes() ? v => v.toFixed(v < 10 ? 2 : 0) + ' ms' : formatBytes;
  for (let i = 0; i <= 4; ++i) {
    context.textAlign = i === 4 ? 'right' : i ? 'center' : 'left';
    context.fillText(unit(total * i / 4), left + (right - left) * i / 4, height - 8);
  }
  context.textAlign = 'left';
  $('timeline-note').textContent = hasTimes() ? 'Width: the least of several measured times.'
    : 'Width: bytes read and written, since nothing was measured (graft plan --measure measures).';
}

function drawMemory() {
  const {context, width, height} = prepare($('memory')), left = 78, right = width - 14, top = 16, bottom = height - 26;
  const n = stage.steps.length, step = (right - left) / Math.max(n, 1);
  const peak = Math.max(1, ...stage.steps.flatMap(s => s.live_bytes));
  context.strokeStyle = ink('--line');
  context.fillStyle = ink('--soft');
  for (let i = 0; i <= 4; ++i) {
    const y = bottom - (bottom - top) * i / 4;
    context.beginPath();
    context.moveTo(left, y);
    context.lineTo(right, y);
    context.stroke();
    context.textAlign = 'right';
    context.fillText(formatBytes(peak * i / 4), left - 8, y + 4);
  }
  stage.devices.forEach((device, d) => {
    context.beginPath();
    context.moveTo(left, bottom);
    stage.steps.forEach((s, i) => {
      const y = bottom - (bottom - top) * s.live_bytes[d] / peak;
      context.lineTo(left + i * step, y);
      context.lineTo(left + (i + 1) * step, y);
    });
    context.lineTo(right, bottom);
    context.fillStyle = palette[d % palette.length] + '66';
    context.fill();
    context.strokeStyle = palette[d % palette.length];
    context.stroke();
    context.textAlign = 'left';
    context.fillStyle = palette[d % palette.length];
    context.fillText(device, left + 8 + 80 * d, top - 4);
  });
  context.fillStyle = ink('--soft');
  context.textAlign = 'left';
  context.fillText('step 0', left, height - 8);
  context.textAlign = 'right';
  context.fillText('step ' + Math.max(0, n - 1), right, height - 8);
  context.textAlign = 'left';
  if (chosen >= 0) {
    context.fillStyle = ink('--mark');
    context.fillRect(left + chosen * step, top, Math.max(step, 1.5), bottom - top);
  }
  $('memory-note').textContent = 'Bytes of each device\'s arena that hold something while a step runs; weights come on top.';
}

// Layers by the longest way from the inputs; within a layer, near what is read.
function layOut() {
  const columns = [], width = 150, height = 44;
  stage.steps.forEach((step, i) => {
    const sources = step.sources.filter(s => s >= 0).map(s => stage.steps[s]);
    step.layer = sources.reduce((n, s) => Math.max(n, s.layer + 1), 0);
    const layer = columns[step.layer] = columns[step.layer] || [];
    const wanted = sources.length ? sources.reduce((n, s) => n + s.column, 0) / sources.length : 0;
    let column = Math.round(wanted);
    for (let reach = 0; layer.includes(column); reach = reach > 0 ? -reach : 1 - reach) column = Math.round(wanted) + reach;
    layer.push(step.column = column);
    step.box = [column * width, step.layer * height, width - 18, height - 16];
    step.index = i;
  });
}

function drawGraph() {
  const {context, width, height} = prepare($('graph'));
  context.translate(view.x, view.y);
  context.scale(view.scale, view.scale);
  const isVisible = b => b[0] * view.scale + view.x < width + 200 && (b[0] + b[2]) * view.scale + view.x > -200 &&
    b[1] * view.scale + view.y < height + 2000 && (b[1] + b[3]) * view.scale + view.y > -2000;
  context.lineWidth = 1 / Math.max(view.scale, 0.4);
  for (const step of stage.steps) {
    if (!isVisible(step.box)) continue;
    for (const s of step.sources) {
      if (s < 0) continue;
      const [x0, y0, w0, h0] = stage.steps[s].box, [x1, y1, w1] = step.box;
      context.strokeStyle = step.index === chosen || s === chosen ? ink('--mark') : ink('--soft') + '88';
      context.beginPath();
      context.moveTo(x0 + w0 / 2, y0 + h0);
      context.bezierCurveTo(x0 + w0 / 2, y0 + h0 + 12, x1 + w1 / 2, y1 - 12, x1 + w1 / 2, y1);
      context.stroke();
    }
  }
  context.font = '11px system-ui, "DejaVu Sans", sans-serif';
  for (const step of stage.steps) {
    const [x, y, w, h] = step.box;
    if (!isVisible(step.box)) continue;
    context.fillStyle = colours.get(step.op);
    context.fillRect(x, y, w, h);
    if (step.fusion) {
      context.strokeStyle = ink('--ink');
      context.lineWidth = 1.5;
      context.strokeRect(x + 1, y + 1, w - 2, h - 2);
    }
    if (step.index === chosen) {
      context.strokeStyle = ink('--mark');
      context.lineWidth = 4;
      context.strokeRect(x - 2, y - 2, w + 4, h + 4);
    }
    if (view.scale < 0.45) continue;
    context.fillStyle = '#fff';
    const name = shortOp(step.op);
    context.fillText(name.length > 20 ? name.slice(0, 19) + '…' : name, x + 6, y + 18);
  }
}

// Brings step |index| (or the beginning) into the middle of the graph.
function focusGraph(index) {
  const canvas = $('graph'), step = stage.steps[Math.max(index, 0)];
  if (!step) return;
  view.x = canvas.clientWidth / 2 - (step.box[0] + step.box[2] / 2) * view.scale;
  view.y = (index < 0 ? 24 : canvas.clientHeight / 2) - step.box[1] * view.scale;
}

const columns = [
  ['#', s => s.index, 'number'], ['node', s => s.node], ['ms', s => s.ms, 'number', v => v.toFixed(4)],
  ['FLOP', s => s.flops, 'number', formatCount], ['bytes', s => s.bytes, 'number', formatBytes], ['kernel', s => s.kernel],
  ['fusion', s => s.fusion || ''], ['output', s => s.outputs[0] || ''], ['device', s => s.device],
  ['operator', s => shortOp(s.op)], ['workspace', s => s.workspace_bytes, 'number', formatBytes],
  ['live', s => s.live_bytes.reduce((a, b) => a + b, 0), 'number', formatBytes],
];

function drawTable() {
  const wanted = $('search').value.toLowerCase().split(/\s+/).filter(Boolean);
  const text = s => (s.text = s.text || [s.node, s.op, s.kernel, s.fusion || '', s.device, s.rejected, ...s.outputs, ...s.inputs.map(String)]
    .join(' ').toLowerCase());
  const used = columns.filter(c => c[0] !== 'ms' || hasTimes());
  const key = used.find(c => c[0] === sortKey) || used[0];
  shown = stage.steps.filter(s => wanted.every(word => text(s).includes(word)));
  shown.sort((a, b) => {
    const x = key[1](a), y = key[1](b);
    return (x < y ? -1 : x > y ? 1 : a.index - b.index) * (sortUp ? 1 : -1);
  });
  const head = make('tr');
  for (const column of used) {
    const cell = make('th', column[0] + (column === key && sortKey !== 'index' ? (sortUp ? ' ▲' : ' ▼') : ''), head, column[2]);
    cell.onclick = () => {
      sortUp = sortKey === column[0] ? !sortUp : !column[2] || column[0] === '#';
      sortKey = column[0];
      drawTable();
    };
  }
  document.querySelector('#steps thead').replaceChildren(head);
  const rows = shown.map(s => {
    const row = make('tr', undefined, undefined, s.index === chosen ? 'chosen' : '');
    for (const [, value, kind, format] of used) make('td', format ? format(value(s)) : value(s), row, kind);
    row.onclick = () => choose(s.index, false);
    return row;
  });
  document.querySelector('#steps tbody').replaceChildren(...rows);
  $('n-found').textContent = shown.length + ' of ' + stage.steps.length + (stage.steps.length === 1 ? ' step' : ' steps');
}

function drawDetail() {
  const detail = $('detail'), s = stage.steps[chosen];
  detail.replaceChildren();
  if (!s) return;
  const list = make('dl', undefined, detail);
  const entries = [
    ['step', s.index + ': ' + s.node], ['operator', s.op], ['device', s.device + (s.placement ? ' — ' + s.placement : '')],
    ['kernel', s.kernel + (s.in_place ? ' (in place)' : '')],
    ['fusion', s.fusion ? s.fusion + ', ' + s.fused + ' nodes in one' : 'none'],
    ['inputs', s.inputs.map((d, i) => d === null ? 'left out' : d + (s.sources[i] < 0 ? '' : ' from step ' + s.sources[i])).join('\n')],
    ['outputs', s.outputs.join('\n')],
    ['work', formatCount(s.flops) + 'FLOP, ' + formatBytes(s.bytes) + ' read and written'],
    ['memory', formatBytes(s.workspace_bytes) + ' workspace, ' + formatBytes(s.packed_bytes) + ' packed weights'],
    ['why not others', s.rejected.trim() || 'the first kernel asked wants it'],
  ];
  if (s.ms !== undefined)
    entries.splice(8, 0, ['time', s.ms.toFixed(4) + ' ms, ' + (s.flops / s.ms / 1e6).toFixed(1) + ' GFLOP/s, ' + (s.bytes / s.ms / 1e6).toFixed(1) + ' GB/s']);
  for (const [name, value] of entries) {
    make('dt', name, list);
    make('dd', value, list);
  }
}

function drawFusion() {
  const table = (id, heads, rows) => {
    const body = make('tbody');
    for (const cells of rows) {
      const row = make('tr', undefined, body);
      for (const cell of cells) make('td', cell, row);
    }
    const head = make('thead'), line = make('tr', undefined, head);
    for (const name of heads) make('th', name, line);
    $(id).replaceChildren(head, body);
  };
  table('rules', ['rule', 'makes', 'groups fused', 'nearly', ''],
    stage.fusion.rules.map(r => [r.rule, shortOp(r.op), r.fused, r.near_misses, r.off ? 'off' : '']));
  const misses = stage.fusion.near_misses;
  table('misses', ['rule', 'node', 'what failed'], misses.map(m => [m.rule, m.node, m.obstacle]));
  $('misses').parentElement.hidden = misses.length === 0;
  $('misses-note').textContent = misses.length ? 'Groups with the operators and edges of a rule that were not replaced.'
    : 'No group came close to a rule without being fused.';
}

function choose(index, isScrolled) {
  chosen = index;
  drawTimeline();
  drawMemory();
  focusGraph(index);
  drawGraph();
  for (const row of document.querySelectorAll('#steps tr.chosen')) row.className = '';
  const place = shown.findIndex(s => s.index === index), row = document.querySelectorAll('#steps tbody tr')[place];
  if (row) row.className = 'chosen';
  if (row && isScrolled) row.scrollIntoView({block: 'nearest'});
  drawDetail();
}

function drawAll() {
  drawTimeline();
  drawMemory();
  drawGraph();
}

function show(index) {
  stage = page.stages[index];
  chosen = -1;
  [...$('stages').children].forEach((button, i) => button.setAttribute('aria-pressed', i === index));
  layOut();
  chooseColours();
  drawCards();
  drawTable();
  drawDetail();
  drawFusion();
  view.scale = 0.8;
  focusGraph(-1);
  drawAll();
}

function tip(event, text) {
  const box = $('tip');
  box.style.display = text ? 'block' : 'none';
  box.textContent = text || '';
  box.style.left = Math.min(event.clientX + 14, window.innerWidth - box.offsetWidth - 8) + 'px';
  box.style.top = event.clientY + 16 + 'px';
}
const describe = s => s && '#' + s.index + '  ' + s.node + '\n' + s.kernel + (s.fusion ? '\nfused by ' + s.fusion : '') +
  '\n' + (s.outputs[0] || '') + (s.ms === undefined ? '' : '\n' + s.ms.toFixed(4) + ' ms');

function stepInGraph(event) {
  const x = (event.offsetX - view.x) / view.scale, y = (event.offsetY - view.y) / view.scale;
  return stage.steps.find(({box: [left, top, w, h]}) => x >= left && x <= left + w && y >= top && y <= top + h);
}
const stepInTimeline = event => stage.steps.find(s => event.offsetX >= s.bar[0] && event.offsetX < s.bar[1]);
const stepInMemory = event => {
  const left = 78, right = $('memory').clientWidth - 14;
  return stage.steps[Math.floor((event.offsetX - left) / (right - left) * stage.steps.length)];
};

function listen(id, find, describeStep) {
  const canvas = $(id);
  canvas.addEventListener('mousemove', event => tip(event, describeStep(find(event))));
  canvas.addEventListener('mouseleave', event => tip(event, ''));
  canvas.addEventListener('click', event => {
    const step = find(event);
    if (step && !view.isMoved) choose(step.index, true);
  });
}

function begin() {
  $('title').textContent = page.title;
  $('footer').textContent = 'graft ' + page.version;
  page.stages.forEach((s, i) => make('button', s.stage.replace('_', ' '), $('stages')).onclick = () => show(i));
  listen('graph', stepInGraph, describe);
  listen('timeline', stepInTimeline, describe);
  listen('memory', stepInMemory, s => s && describe(s) + '\n' + s.live_bytes.map(formatBytes).join(' + ') + ' live');
  const graph = $('graph');
  graph.addEventListener('wheel', event => {
    event.preventDefault();
    const factor = Math.exp(-event.deltaY / 400), scale = Math.min(3, Math.max(0.03, view.scale * factor));
    view.x = event.offsetX - (event.offsetX - view.x) * scale / view.scale;
    view.y = event.offsetY - (event.offsetY - view.y) * scale / view.scale;
    view.scale = scale;
    drawGraph();
  }, {passive: false});
  graph.addEventListener('mousedown', event => {
    let {clientX: x, clientY: y} = event;
    view.isMoved = false;
    const move = e => {
      view.isMoved = view.isMoved || Math.abs(e.clientX - event.clientX) + Math.abs(e.clientY - event.clientY) > 4;
      view.x += e.clientX - x;
      view.y += e.clientY - y;
      [x, y] = [e.clientX, e.clientY];
      drawGraph();
    };
    window.addEventListener('mousemove', move);
    window.addEventListener('mouseup', () => window.removeEventListener('mousemove', move), {once: true});
  });
  $('search').addEventListener('input', drawTable);
  window.addEventListener('resize', drawAll);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', drawAll);
  // Most people come for the part that takes the longest.
  show(Math.max(0, page.stages.findIndex(s => s.stage === 'transformer')));
}
begin();
