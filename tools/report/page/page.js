// SPDX-License-Identifier: Apache-2.0
// Puts the data of a run on the page; a live page fetches the data again every second.

const $ = id => document.getElementById(id);
const state = {axis: 'examples', group: new CursorGroup(), timeline: null, charts: [], sort: {key: 'total_s', down: true}, data: null};
window.millrace = state;

const element = (tag, text, className) => {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  if (className) node.className = className;
  return node;
};

function formatTime(seconds) {
  const s = Math.round(seconds);
  if (s < 60) return `${s} s`;
  return s < 3600 ? `${Math.floor(s / 60)} min ${s % 60} s` : `${Math.floor(s / 3600)} h ${Math.floor(s % 3600 / 60)} min`;
}

// The state of a live run: how far it is, and for how long it goes on.
function progressText(data) {
  const run = data.run, examples = +run['progress.examples'];
  if (run.status && run.status !== 'running') return `The run has ${run.status === 'finished' ? 'finished' : 'ended'}.`;
  if (!examples) return 'Starting: no progress yet.';
  const total = +run['progress.total'], left = +run['progress.seconds_left'];
  const done = total > 0 ? ` of about ${formatNumber(total)} (${Math.floor(100 * examples / total)} %)` : '';
  return `${examples.toLocaleString('en')}${done} examples, ${formatNumber(+run['progress.examples_per_s'])}/s, ` + (total > 0 ? `about ${formatTime(left)} left.` : 'time left unknown.');
}

// Before the first data, and after the last.
function showState(text) {
  const head = $('head');
  if (!state.data) head.replaceChildren(element('h1', 'Live run'), element('p', text, 'state'));
  else head.querySelector('.state').textContent = text;
}

function showHead(data) {
  const run = data.run, head = $('head');
  const title = element('h1', data.path.split('/').filter(Boolean).pop() || 'run');
  if (run.status) title.append(element('span', run.status, 'pill ' + run.status));
  const facts = element('div', undefined, 'facts');
  const fact = (label, value) => {
    if (!value) return;
    const item = element('span', label + ' ');
    item.append(element('b', value));
    facts.append(item);
  };
  fact('program', run.program && `${run.program} ${run.version || ''}`);
  fact('started', (run.start_time || '').replace('T', ' ').replace('Z', ' UTC'));
  fact('took', run.seconds && `${(+run.seconds).toFixed(2)} s`);
  fact('host', run['host.name'] && `${run['host.name']} · ${run['host.cpu'] || ''} · ${run['host.cores']} cores · ${formatNumber(+run['host.memory_bytes'] / 1e9)} GB`);
  fact('placement', data.processes.map(p => p.name).join(', '));
  fact('seed', run.seed);
  fact('batch', run['flags.batch_size']);
  for (const m of ['logloss', 'auc', 'accuracy', 'precision']) if (run['metrics.' + m]) fact('test ' + m, (+run['metrics.' + m]).toFixed(4));
  if (run['best.step']) fact('best', `${run['best.metric']} at step ${(+run['best.step']).toLocaleString('en')}`);
  if (run.message) fact('message', run.message);
  head.replaceChildren(title, facts);
  if (data.live) head.append(element('p', progressText(data), 'state'));
  document.title = title.firstChild.textContent + ' · Millrace';
}

const partColor = {'input wait': 'input', disk: 'disk', compute: 'compute', network: 'network', server: 'server', 'barrier wait': 'barrier', evaluation: 'evaluation', checkpoint: 'checkpoint', other: 'other'};

function showWarnings(data) {
  const list = $('warnings');
  let own = [];  // of the run itself, a list in run.json
  try { own = JSON.parse(data.run.warnings || '[]').map(String); } catch (error) { /* not ours */ }
  list.hidden = !data.warnings.length && !own.length;
  list.replaceChildren(...own.map(text => element('li', text)), ...data.warnings.map(text => element('li', 'Ignored: ' + text)));
}

function showDiagnosis(data) {
  const d = data.diagnosis, box = $('diagnosis');
  const colon = d.sentence.indexOf(':');
  const sentence = element('p', undefined, 'sentence');
  if (colon > 0 && d.bottleneck !== 'unknown') sentence.append(element('b', d.sentence.slice(0, colon)), d.sentence.slice(colon));
  else sentence.textContent = data.live && data.run['flags.profile'] === 'true' ? 'The diagnosis follows with the first traced steps.' : d.sentence;
  const color = css({input: 'input', barrier: 'barrier', host: 'other'}[d.bottleneck] || d.bottleneck) || css('accent');
  box.style.borderLeftColor = color;
  const split = element('div', undefined, 'split'), totals = {};
  for (const worker of d.workers) {
    const stack = element('div', undefined, 'stack');
    for (const [part, seconds] of Object.entries(worker.parts)) {
      totals[part] = (totals[part] || 0) + seconds;
      const piece = element('i');
      piece.style.width = 100 * seconds / worker.total_s + '%';
      piece.style.background = css(partColor[part]);
      piece.title = `${part}: ${(100 * seconds / worker.total_s).toFixed(1)} % (${seconds.toFixed(3)} s)`;
      stack.append(piece);
    }
    split.append(element('span', worker.process, 'who'), stack);
  }
  const all = Object.values(totals).reduce((a, b) => a + b, 0), keys = element('div', undefined, 'keys');
  for (const [part, seconds] of Object.entries(totals)) {
    if (seconds < all * 5e-4) continue;
    const item = element('span'), dot = element('i');
    dot.style.background = css(partColor[part]);
    item.append(dot, part + ' ', element('b', (100 * seconds / all).toFixed(1) + ' %'));
    keys.append(item);
  }
  const evidence = element('ul', undefined, 'evidence');
  for (const line of d.evidence) evidence.append(element('li', line));
  const advice = element('ul', undefined, 'advice');
  for (const a of d.advice) {
    const colon = a.gain > 0 ? a.text.lastIndexOf(':') : a.text.length, item = element('li', a.text.slice(0, colon));
    if (a.gain > 0) item.append(': ', element('b', a.text.slice(colon + 2)));
    advice.append(item);
  }
  box.replaceChildren(sentence, ...(d.advice.length ? [advice] : []), split, keys, ...(d.evidence.length ? [evidence] : []));
}

const curveTitles = {loss: 'training loss', logloss: 'test logloss', auc: 'test AUC', accuracy: 'test accuracy', train_accuracy: 'training accuracy', precision: 'test precision', recall: 'test recall', f1: 'test F1', ne: 'normalized entropy', calibration: 'calibration', examples_per_s: 'training speed'};

function showCurves(data) {
  const grid = $('curve-grid'), m = data.metrics;
  grid.replaceChildren();
  state.curveCharts = [];
  const names = Object.keys(m).filter(n => !['step', 'examples', 'epoch', 'seconds'].includes(n));
  if (!names.length || !m[names[0]].length) { grid.append(element('p', data.live ? 'No evaluation yet.' : 'No evaluation in this run.', 'empty')); $('axis').textContent = ''; return; }
  const group = new CursorGroup();
  for (const name of names) {
    if (m[name].every(v => v === null)) continue;
    state.curveCharts.push(new LineChart(grid, {title: curveTitles[name] || name, unit: name === 'examples_per_s' ? 'examples/s' : '', group, zero: name === 'examples_per_s', series: [{name: '', x: m[state.axis] || m.step, y: m[name]}], xUnit: state.axis === 'seconds' ? ' s' : ''}));
  }
  const axis = $('axis');
  axis.replaceChildren('against ');
  for (const kind of ['examples', 'seconds', 'step']) {
    const button = element('button', kind === 'seconds' ? 'time' : kind, kind === state.axis ? 'on' : '');
    button.type = 'button';
    button.onclick = () => { state.axis = kind; showCurves(state.data); };
    axis.append(button, ' ');
  }
}

// `rate`: columns that only grow, shown per second. `level`: columns shown as they are.
const resourceCharts = [
  {title: 'CPU', unit: 'cores', rate: ['user_s_total', 'system_s_total'], per: 'process', fill: true},
  {title: 'CPU by thread', unit: 'cores', threads: true},
  {title: 'Host CPU', unit: 'cores', rate: ['host_busy_s_total'], per: 'host', fill: true},
  {title: 'Memory', unit: 'MB', level: ['resident_bytes'], scale: 1e-6, per: 'process', fill: true},
  {title: 'Network, own connections', unit: 'Mbit/s, sent and received', rate: ['tcp_sent_bytes_total', 'tcp_received_bytes_total'], scale: 8e-6, per: 'process'},
  {title: 'Loopback and interfaces', unit: 'Mbit/s', parts: {loopback: ['loopback_bytes_total'], 'interfaces in': ['interface_received_bytes_total'], 'interfaces out': ['interface_sent_bytes_total']}, scale: 8e-6},
  {title: 'Packets, own connections', unit: '1/s', rate: ['tcp_sent_packets_total', 'tcp_received_packets_total'], per: 'process'},
  {title: 'Reads', unit: 'MB/s, cached or not', rate: ['read_bytes_total'], scale: 1e-6, per: 'process'},
  {title: 'Disk', unit: 'MB/s, host', parts: {read: ['host_disk_read_bytes_total'], written: ['host_disk_written_bytes_total']}, scale: 1e-6},
  {title: 'Page faults', unit: '1/s', rate: ['minor_faults_total', 'major_faults_total'], per: 'process'},
  {title: 'Context switches', unit: '1/s', rate: ['voluntary_switches_total', 'involuntary_switches_total'], per: 'process'},
];

function sampleSeries(process, columns, isRate, scale) {
  const s = process.samples, time = s.time_ns || [], x = [], y = [];
  columns = columns.filter(column => s[column]);
  if (!columns.length) return {x, y};
  for (let i = isRate ? 1 : 0; i < time.length; ++i) {
    let value = 0;
    for (const column of columns) value += isRate ? (s[column][i] - s[column][i - 1]) / ((time[i] - time[i - 1]) * 1e-9) : s[column][i];
    x.push(time[i] * 1e-9);
    y.push(value * (scale || 1));
  }
  return {x, y};
}

function threadSeries(process) {
  const time = process.samples.time_ns || [];
  return process.thread_cpu.map(t => {
    const x = [], y = [];
    for (let i = 1; i < time.length; ++i) {
      const used = t.cpu_s[i] === null || t.cpu_s[i - 1] === null ? null : (t.cpu_s[i] - t.cpu_s[i - 1]) / ((time[i] - time[i - 1]) * 1e-9);
      x.push(time[i] * 1e-9);
      y.push(used);
    }
    return {name: t.name, x, y, sum: y.reduce((a, b) => a + (b || 0), 0)};
  }).filter(t => t.sum > 0).sort((a, b) => b.sum - a.sum).slice(0, 8);
}

function chartSeries(chart, sampled) {
  if (chart.threads) return sampled.length === 1 ? threadSeries(sampled[0]) : [];
  if (chart.parts) return Object.entries(chart.parts).map(([name, columns]) => ({name, ...sampleSeries(sampled[0], columns, true, chart.scale)}));
  const of = chart.per === 'host' ? sampled.slice(0, 1) : sampled;
  return of.map(p => ({name: chart.per === 'host' ? '' : p.name, fill: chart.fill && of.length === 1, ...sampleSeries(p, chart.rate || chart.level, !!chart.rate, chart.scale)}));
}

function showResources(data) {
  const stack = $('resource-stack'), sampled = data.processes.filter(p => (p.samples.time_ns || []).length > 1);
  const cursor = state.group.x;
  stack.replaceChildren();
  state.group = new CursorGroup();
  state.group.x = cursor;
  state.resourceCharts = [];
  if (!sampled.length) { stack.append(element('p', data.live ? 'No samples yet.' : 'No samples in this run.', 'empty')); return; }
  const last = Math.max(...sampled.map(p => p.samples.time_ns[p.samples.time_ns.length - 1])) * 1e-9;
  for (const chart of resourceCharts) {
    const series = chartSeries(chart, sampled);
    if (!series.some(s => s.y.some(v => v > 0))) continue;
    state.resourceCharts.push(new LineChart(stack, {title: chart.title, unit: chart.unit, height: 96, zero: true, group: state.group, series, xRange: [0, last], xUnit: ' s'}));
  }
  for (const process of sampled) showCounters(stack, process, last);
}

const counterTitles = {groups_ready: ['prefetched batches', 'groups of 1,024 rows that are ready for the training thread'], evaluation_groups_ready: ['prefetched evaluation batches', 'groups of rows that are ready for the evaluation']};

function showCounters(stack, process, last) {
  const byName = new Map();
  for (const [name, time, value] of process.counters) {
    if (!byName.has(name)) byName.set(name, {name: state.data.names[name], x: [], y: []});
    byName.get(name).x.push(time * 1e-9);
    byName.get(name).y.push(value);
  }
  for (const series of byName.values()) {
    const [title, unit] = counterTitles[series.name] || [series.name, ''];
    state.resourceCharts.push(new LineChart(stack, {title: `${process.name}: ${title}`, unit, height: 84, zero: true, group: state.group, series: [{...series, name: ''}], xRange: [0, last], xUnit: ' s'}));
  }
}

function showTable(table, columns, rows, onRow) {
  const head = element('thead'), line = element('tr');
  for (const c of columns) {
    const th = element('th', c.title, (c.number ? 'n' : '') + (state.sort.key === c.key && c.sortable ? ' sorted' : ''));
    if (c.sortable) th.onclick = () => { state.sort = {key: c.key, down: state.sort.key === c.key ? !state.sort.down : !!c.number}; showOps(state.data); };
    line.append(th);
  }
  head.append(line);
  const body = element('tbody');
  for (const row of rows) {
    const tr = element('tr');
    for (const c of columns) {
      const td = element('td', undefined, c.number ? 'n' : '');
      td.append(...[c.cell(row)].flat());
      tr.append(td);
    }
    if (onRow) tr.onclick = () => onRow(row);
    body.append(tr);
  }
  table.replaceChildren(head, body);
}

function showOps(data) {
  $('ops').hidden = document.querySelector('nav a[href="#ops"]').hidden = !data.ops.length;
  const {key, down} = state.sort;
  const rows = [...data.ops].sort((a, b) => (typeof a[key] === 'string' ? a[key].localeCompare(b[key]) : a[key] - b[key]) * (down ? -1 : 1));
  const number = (title, k, cell) => ({title, key: k, number: true, sortable: true, cell: r => cell ? cell(r) : formatNumber(r[k])});
  showTable($('op-table'), [
    {title: 'op', key: 'op', sortable: true, cell: r => { const dot = element('span', undefined, 'dot'); dot.style.background = css(r.cat) || css('op'); const name = element('span', undefined, 'name'); name.append(dot, r.op); return [name, ' ', element('span', r.description, 'description')]; }},
    {title: 'where', key: 'where', sortable: true, cell: r => r.where},
    {title: 'output (mean)', key: 'output', sortable: true, cell: r => r.output},
    number('calls', 'calls', r => r.calls.toLocaleString('en')),
    number('threads', 'threads'),
    number('total', 'total_s', r => formatDuration(r.total_s * 1e9)),
    number('mean', 'mean_us', r => formatDuration(r.mean_us * 1e3)),
    number('p50', 'p50_us', r => formatDuration(r.p50_us * 1e3)),
    number('p99', 'p99_us', r => formatDuration(r.p99_us * 1e3)),
    number('of step', 'share', r => { const bar = element('span', undefined, 'share'); bar.style.width = Math.min(1, r.share) * 36 + 'px'; return [(100 * r.share).toFixed(1) + ' %', bar]; }),
    number('bytes', 'bytes', r => r.bytes ? formatNumber(r.bytes) + 'B' : ''),
    number('GB/s', 'gb_per_s', r => r.bytes ? r.gb_per_s.toFixed(3) : ''),
  ], rows, row => findOp(row.op));
}

function findOp(op) {
  $('search').value = op.replace(' (eval)', '');
  searchFor();
  $('timeline').scrollIntoView();
  state.timeline.selected = null;
  state.timeline.step(1);
}

function showPeaks(data) {
  const rows = new Map(), processes = [...new Set(data.peaks.map(r => r.process))];
  for (const r of data.peaks) {
    if (!rows.has(r.resource)) rows.set(r.resource, {resource: r.resource, unit: r.unit, by: {}});
    rows.get(r.resource).by[r.process] = r;
  }
  const cell = (process, key) => r => r.by[process] ? formatNumber(r.by[process][key]) : '';
  showTable($('peak-table'), [
    {title: 'resource', cell: r => r.resource}, {title: 'unit', cell: r => r.unit},
    ...processes.flatMap(p => [{title: `${p} mean`, number: true, cell: cell(p, 'mean')}, {title: 'peak', number: true, cell: cell(p, 'peak')}]),
  ], [...rows.values()]);
}

function showFlags(data) {
  const flags = Object.entries(data.run).filter(([k, v]) => k.startsWith('flags.') && v !== '').map(([k, v]) => ({name: '--' + k.slice(6), value: v}));
  showTable($('flag-table'), [{title: 'flag', cell: r => r.name}, {title: 'value', cell: r => r.value}], flags);
}

function showDetails(span) {
  const box = $('details');
  box.hidden = !span;
  if (!span) return;
  const list = element('dl');
  const row = (name, value) => list.append(element('dt', name), element('dd', value));
  row('where', `${span.process}, ${span.thread}`);
  row('kind', catTitles[span.cat] || span.cat);
  row('begins at', formatDuration(span.begin));
  row('takes', formatDuration(span.duration));
  for (const [name, value] of Object.entries(span.args)) row(name, name.endsWith('_ns') ? formatDuration(value) : value.toLocaleString('en'));
  if (span.args.bytes > 0 && span.duration > 0) row('rate', trim(span.args.bytes / span.duration, 3) + ' GB/s');
  box.replaceChildren(element('h3', span.name), list);
}

const catTitles = {op: 'other work', step: 'step', input: 'input', disk: 'reading files', compute: 'computing', network: 'network', server: 'server', barrier: 'waiting at the barrier', evaluation: 'evaluation', checkpoint: 'checkpoint'};

async function showTimeline(data) {
  const tracks = await unpackSpans(data);
  const shown = tracks.reduce((n, t) => n + t.n, 0);
  $('timeline').classList.toggle('without-trace', !shown);
  $('no-trace').textContent = data.live ? 'No spans yet. A run that was started without --profile has none.' :
    'This run has no trace. Start it with --profile to see all ops here, or with --profile_steps=100:120 to see only these steps.';
  $('timeline-note').textContent = shown ? `${shown.toLocaleString('en')} spans${shown < data.all_spans ? ' of ' + data.all_spans.toLocaleString('en') + ' (only the beginning)' : ''}` : '';
  if (state.timeline) state.timeline.setData(data, tracks);
  else state.timeline = new Timeline($('timeline-canvas'), data, tracks, showDetails);
  const used = new Set(tracks.flatMap(t => [...new Set(t.cat)]));
  $('legend').replaceChildren(...data.cats.flatMap((cat, i) => {
    if (!used.has(i)) return [];
    const item = element('span'), dot = element('i');
    dot.style.background = css(cat) || css('op');
    item.dataset.cat = cat;
    item.append(dot, catTitles[cat] || cat);
    return [item];
  }));
}

function searchFor() {
  const n = state.timeline.search($('search').value);
  $('found').textContent = state.timeline.filter ? `${n.toLocaleString('en')} spans` : '';
}

async function show(data) {
  state.data = data;
  document.body.classList.remove('waiting');
  showHead(data);
  showWarnings(data);
  showDiagnosis(data);
  showCurves(data);
  showResources(data);
  showGraph(data);
  showOps(data);
  showPeaks(data);
  showFlags(data);
  await showTimeline(data);
}

function setTheme(dark) {
  document.documentElement.classList.toggle('dark', dark);
  if (state.data) { showDiagnosis(state.data); showCurves(state.data); showResources(state.data); showGraph(state.data); showOps(state.data); if (state.timeline) { showTimelineLegend(); state.timeline.draw(); } }
}
function showTimelineLegend() {
  [...$('legend').children].forEach(item => { item.firstChild.style.background = css(item.dataset.cat) || css('op'); });
}

async function follow() {
  $('live').hidden = false;
  document.body.classList.add('waiting');
  showState('Starting: waiting for the first data.');
  while (true) {
    try {
      const response = await fetch('data.json', {cache: 'no-store'});
      if (response.ok) { await show({...await response.json(), live: true}); state.updates = (state.updates || 0) + 1; state.done(); }
      else if (!state.data) showState('Starting: the run folder has no data yet.');
      if (state.data && state.data.run.status && state.data.run.status !== 'running') break;
    } catch (error) {
      showState(state.data ? 'The run has ended, or the connection is lost.' : 'No connection to the run: trying again.');
      if (state.data) break;
    }
    await new Promise(done => setTimeout(done, 1000));
  }
  $('live').hidden = true;
}

state.ready = new Promise(done => { state.done = done; });
setTheme(matchMedia('(prefers-color-scheme: dark)').matches);
$('theme').onclick = () => setTheme(!document.documentElement.classList.contains('dark'));
$('search').oninput = searchFor;
$('search').onkeydown = e => { if (e.key === 'Enter') state.timeline.step(e.shiftKey ? -1 : 1); };
$('next').onclick = () => state.timeline.step(1);
$('previous').onclick = () => state.timeline.step(-1);
$('reset').onclick = () => state.timeline.reset();
const embedded = JSON.parse($('data').textContent);
if (embedded) show(embedded).then(() => state.done());
else follow();
