// SPDX-License-Identifier: Apache-2.0
// Several runs on one page: overlaid curves, tables of results, flags and speed.

const $ = id => document.getElementById(id);
const state = {axis: 'examples', hidden: new Set(), sort: {}, charts: [], data: JSON.parse($('data').textContent)};
window.millrace = state;

const element = (tag, text, className) => {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  if (className) node.className = className;
  return node;
};

const isDark = () => document.documentElement.classList.contains('dark');
// The first eight runs have the page's colors; more of them get hues that lie far apart.
const runColor = i => state.data.runs.length <= 8 ? seriesColor(i) : `hsl(${Math.round(i * 137.5) % 360} ${isDark() ? '62% 66%' : '64% 40%'})`;
const dot = i => { const mark = element('i', undefined, 'mark'); mark.style.background = runColor(i); return mark; };
const withDot = i => [dot(i), state.data.runs[i].name];
const bytes = v => v > 0 ? formatNumber(v) + 'B' : '–';
const metric = v => v === null ? '–' : Math.abs(v) >= 100 ? formatNumber(v) : v.toFixed(5);
const curveTitles = {loss: 'training loss', logloss: 'test logloss', auc: 'test AUC', accuracy: 'test accuracy', train_accuracy: 'training accuracy', precision: 'test precision', recall: 'test recall', f1: 'test F1', ne: 'normalized entropy', calibration: 'calibration', examples_per_s: 'training speed'};

// The most telling metrics come first.
const rank = name => { const at = ['logloss', 'auc', 'ne', 'calibration', 'loss', 'accuracy'].indexOf(name); return at < 0 ? 9 : at; };
const metricNames = () => [...state.data.metrics].sort((a, b) => rank(a) - rank(b));

function showHead() {
  const {runs, best, differences} = state.data;
  const head = $('head');
  head.replaceChildren(element('h1', `${runs.length} runs`));
  if (best === null) return;
  const ties = differences.filter(d => d.result === 'tie').length;
  const text = element('p', undefined, 'sentence');
  text.append(element('b', runs[best].name), ' has the lowest logloss on the test set' + (ties ? `; ${ties} of ${differences.length} others tie with it.` : '; all others are worse by more than chance.'));
  head.append(text);
}

// A click shows or hides a run, a double click shows it alone.
function showRuns() {
  $('runs').replaceChildren(...state.data.runs.map((run, i) => {
    const chip = element('button', undefined, state.hidden.has(i) ? 'chip off' : 'chip');
    chip.type = 'button';
    chip.title = run.path;
    chip.setAttribute('aria-pressed', String(!state.hidden.has(i)));
    chip.append(dot(i), run.name);
    chip.onclick = () => { state.hidden.has(i) ? state.hidden.delete(i) : state.hidden.add(i); showRuns(); showCurves(); };
    chip.ondblclick = () => { state.hidden = new Set(state.data.runs.map((_, r) => r).filter(r => r !== i)); showRuns(); showCurves(); };
    return chip;
  }));
}

function seriesOf(name) {
  return state.data.runs.flatMap((run, i) => {
    const y = run.curves[name], x = run.curves[state.axis] || run.curves.step;
    return state.hidden.has(i) || !y || !x || y.every(v => v === null) ? [] : [{name: '', x, y, color: runColor(i)}];
  });
}

function showCurves() {
  const grid = $('curve-grid'), names = metricNames().filter(n => state.data.runs.some(run => (run.curves[n] || []).some(v => v !== null)));
  if (state.shown !== names.join()) {
    grid.replaceChildren();
    state.shown = names.join();
    const group = new CursorGroup();
    state.charts = names.map(name => ({name, chart: new LineChart(grid, {title: curveTitles[name] || name, unit: name === 'examples_per_s' ? 'examples/s' : '', group, zero: name === 'examples_per_s', hideValues: state.data.runs.length > 4, series: []})}));
    if (!names.length) grid.append(element('p', 'None of the runs has an evaluation.', 'empty'));
  }
  for (const {name, chart} of state.charts) {
    chart.options.xUnit = state.axis === 'seconds' ? ' s' : '';
    chart.setSeries(seriesOf(name));
  }
  const axis = $('axis');
  axis.replaceChildren('against ');
  for (const kind of ['examples', 'seconds', 'step']) {
    const button = element('button', kind === 'seconds' ? 'time' : kind, kind === state.axis ? 'on' : '');
    button.type = 'button';
    button.onclick = () => { state.axis = kind; showCurves(); };
    axis.append(button, ' ');
  }
}

// columns: [{title, number, value: i => sort key, cell: i => content}]; one row for each run.
function showTable(id, columns, rows) {
  const table = $(id), sort = state.sort[id];
  const head = element('thead'), line = element('tr'), body = element('tbody');
  columns.forEach((c, k) => {
    const th = element('th', c.title, (c.number ? 'n' : '') + (sort && sort.column === k ? ' sorted' : ''));
    th.onclick = () => { state.sort[id] = {column: k, down: sort && sort.column === k ? !sort.down : false}; showTable(id, columns, rows); };
    line.append(th);
  });
  head.append(line);
  const order = [...rows];
  if (sort) {
    const value = columns[sort.column].value;
    const compare = (a, b) => a === null ? 1 : b === null ? -1 : typeof a === 'string' ? a.localeCompare(b, 'en', {numeric: true}) : a - b;
    order.sort((a, b) => compare(value(a), value(b)) * (sort.down && value(a) !== null && value(b) !== null ? -1 : 1));
  }
  for (const i of order) {
    const tr = element('tr');
    for (const c of columns) {
      const td = element('td', undefined, c.number ? 'n' : '');
      td.append(...[c.cell(i)].flat());
      tr.append(td);
    }
    body.append(tr);
  }
  table.replaceChildren(head, body);
}

const nameColumn = {title: 'run', value: i => state.data.runs[i].name, cell: withDot};

function showResults() {
  const {runs, equal_examples: equal} = state.data, all = runs.map((_, i) => i);
  const names = metricNames().filter(n => n !== 'examples_per_s');
  const columns = [nameColumn];
  for (const name of names.slice(0, 3)) {
    const title = curveTitles[name] || name;
    for (const [key, words] of [['final', ''], ['best', ' best'], ['equal', ` at ${formatNumber(equal)}`]]) {
      columns.push({title: title + words, number: true, value: i => runs[i].summary[name][key], cell: i => metric(runs[i].summary[name][key])});
    }
  }
  showTable('result-table', columns, all);
}

// A difference as a bar around the line of 0.
function interval(d, widest) {
  const box = element('span', undefined, 'interval'), bar = element('i'), point = element('b');
  const x = v => 50 + 48 * Math.max(-1, Math.min(1, v / widest));
  bar.style.left = x(d.low) + '%';
  bar.style.width = Math.max(1, x(d.high) - x(d.low)) + '%';
  point.style.left = x(d.value) + '%';
  box.append(bar, point);
  return box;
}

function showDifferences() {
  const {runs, best, differences, test_rows: rows} = state.data;
  $('difference-card').hidden = best === null;
  $('no-differences').hidden = best !== null;
  $('no-differences').textContent = 'No two runs have predictions on the same test set. For each run: millrace-predict --model=RUN --metrics --output=labeled --out=RUN/predictions.csv TEST_FILES';
  if (best === null) return;
  $('difference-note').textContent = `to ${runs[best].name}, paired over ${rows.toLocaleString('en')} test rows, with intervals of 95 %`;
  const of = new Map(differences.map(d => [d.run, d]));
  const widest = key => Math.max(1e-12, ...differences.filter(d => d[key]).map(d => Math.max(Math.abs(d[key].low), Math.abs(d[key].high))));
  const text = d => d ? `${d.value >= 0 ? '+' : ''}${d.value.toFixed(5)} [${d.low.toFixed(5)}, ${d.high.toFixed(5)}]` : '–';
  const columns = [nameColumn, {title: 'by logloss', value: i => of.get(i).result, cell: i => element('span', of.get(i).result, 'result ' + of.get(i).result)}];
  for (const key of ['logloss', 'auc']) {
    const width = widest(key);
    columns.push({title: key, number: true, value: i => of.get(i)[key] ? of.get(i)[key].value : null, cell: i => text(of.get(i)[key])});
    columns.push({title: '', value: i => of.get(i)[key] ? of.get(i)[key].value : null, cell: i => of.get(i)[key] ? interval(of.get(i)[key], width) : ''});
  }
  showTable('difference-table', columns, differences.map(d => d.run));
}

function showFlags() {
  const {runs, flags} = state.data;
  $('flags').hidden = !flags.length;
  showTable('flags-table', [nameColumn, ...flags.map(flag => ({title: '--' + flag, value: i => runs[i].flags[flag], cell: i => element('span', runs[i].flags[flag] || '–', 'value')}))], runs.map((_, i) => i));
}

function showSpeed() {
  const {runs} = state.data;
  const number = (title, key, cell) => ({title, number: true, value: i => runs[i][key], cell: i => cell(runs[i][key])});
  showTable('speed-table', [nameColumn, {title: 'status', value: i => runs[i].status, cell: i => runs[i].status},
    number('examples', 'examples', v => v.toLocaleString('en')), number('time', 'seconds', v => v > 0 ? formatDuration(v * 1e9) : '–'),
    number('examples/s', 'examples_per_s', v => v > 0 ? formatNumber(v) : '–'), number('memory', 'memory', bytes), number('cores', 'cores', v => v.toFixed(2)),
    {title: 'bottleneck', value: i => runs[i].bottleneck, cell: i => { const span = element('span', runs[i].bottleneck === 'unknown' ? '–' : runs[i].bottleneck); span.title = runs[i].sentence; return span; }}],
    runs.map((_, i) => i));
}

function showAll() {
  showHead(); showRuns(); showCurves(); showResults(); showDifferences(); showFlags(); showSpeed();
  $('warnings').hidden = !state.data.warnings.length;
  $('warnings').replaceChildren(...state.data.warnings.map(text => element('li', 'Ignored: ' + text)));
}

function setTheme(dark) {
  document.documentElement.classList.toggle('dark', dark);
  showAll();
}
setTheme(matchMedia('(prefers-color-scheme: dark)').matches);
$('theme').onclick = () => setTheme(!isDark());
