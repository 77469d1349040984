// SPDX-License-Identifier: Apache-2.0
// Line charts on canvas, with a cursor that several charts can share.

const css = name => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();
const seriesColor = i => css('s' + i % 8);

function formatNumber(v, digits) {
  if (v === null || v === undefined || Number.isNaN(v)) return '–';
  const a = Math.abs(v);
  if (a !== 0 && (a >= 1e9)) return trim(v / 1e9, 2) + ' G';
  if (a >= 1e6) return trim(v / 1e6, 2) + ' M';
  if (a >= 1e4) return trim(v / 1e3, 1) + ' k';
  if (digits !== undefined) return v.toFixed(digits);
  if (a >= 100) return trim(v, 0);
  if (a >= 1) return trim(v, 2);
  if (a === 0) return '0';
  return a < 1e-3 ? v.toExponential(1) : trim(v, 4);
}
function trim(v, digits) {
  const text = v.toFixed(digits);
  return text.includes('.') ? text.replace(/\.?0+$/, '') : text;
}
function formatDuration(ns) {
  const a = Math.abs(ns);
  if (a < 1e3) return trim(ns, 0) + ' ns';
  if (a < 1e6) return trim(ns / 1e3, 2) + ' µs';
  if (a < 1e9) return trim(ns / 1e6, 2) + ' ms';
  return trim(ns / 1e9, 3) + ' s';
}

// Round numbers between low and high, about `count` of them.
function ticks(low, high, count) {
  const raw = (high - low) / Math.max(1, count);
  if (!(raw > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map(m => m * power).find(s => s >= raw);
  const out = [];
  for (let t = Math.ceil(low / step - 1e-9) * step; t <= high + step * 1e-9; t += step) out.push(Math.abs(t) < step * 1e-9 ? 0 : t);
  return out;
}

// Labels of ticks, with enough digits to distinguish neighbours.
function tickLabels(values) {
  const most = Math.max(...values.map(Math.abs)), step = values.length > 1 ? Math.abs(values[1] - values[0]) : 0;
  const [scale, unit] = most >= 1e9 ? [1e9, ' G'] : most >= 1e6 ? [1e6, ' M'] : most >= 1e4 ? [1e3, ' k'] : [1, ''];
  if (!(step > 0) || most < 1e-3) return values.map(v => formatNumber(v));
  const digits = Math.max(0, Math.ceil(-Math.log10(step / scale) - 1e-9));
  return values.map(v => v === 0 ? '0' : trim(v / scale, Math.min(12, digits)) + unit);
}

// A cursor that several charts share: a position on their common x axis.
class CursorGroup {
  constructor() { this.charts = new Set(); this.x = null; }
  set(x) { this.x = x; for (const chart of this.charts) chart.drawCursor(); }
}

class LineChart {
  // series: [{name, x: [], y: [], fill}]; options: {title, unit, height, zero, xUnit, group, xRange}
  constructor(parent, options) {
    this.options = options;
    this.group = options.group || new CursorGroup();
    this.group.charts.add(this);
    this.root = document.createElement('div');
    this.root.className = 'chart';
    this.root.innerHTML = '<div class="title"><span></span><span class="unit"></span><span class="values"></span></div><canvas></canvas>';
    this.root.querySelector('.title span').textContent = options.title;
    this.root.querySelector('.unit').textContent = options.unit || '';
    this.values = this.root.querySelector('.values');
    this.canvas = this.root.querySelector('canvas');
    this.canvas.style.height = (options.height || 150) + 'px';
    parent.append(this.root);
    this.canvas.addEventListener('pointermove', e => this.group.set(this.toX(e.offsetX)));
    this.canvas.addEventListener('pointerleave', () => this.group.set(null));
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    this.setSeries(options.series);
  }
  setSeries(series) {
    this.series = series.filter(s => s.x.length > 0);
    this.draw();
  }
  range() {
    let x0 = Infinity, x1 = -Infinity, y0 = Infinity, y1 = -Infinity;
    for (const s of this.series) {
      for (let i = 0; i < s.x.length; ++i) {
        if (s.y[i] === null || Number.isNaN(s.y[i])) continue;
        x0 = Math.min(x0, s.x[i]); x1 = Math.max(x1, s.x[i]);
        y0 = Math.min(y0, s.y[i]); y1 = Math.max(y1, s.y[i]);
      }
    }
    if (this.options.xRange) [x0, x1] = this.options.xRange;
    if (this.options.zero) y0 = Math.min(0, y0);
    this.onlyX = x1 > x0 ? null : x0;
    if (!(x1 > x0)) { x0 -= .5; x1 = x0 + 1; }
    if (!(y1 > y0)) { const pad = Math.abs(y0) * .1 || 1; y1 += pad; if (!this.options.zero) y0 -= pad; }
    const pad = (y1 - y0) * .06;
    return {x0, x1, y0: this.options.zero ? y0 : y0 - pad, y1: y1 + pad};
  }
  toX(px) { return this.box ? this.r.x0 + (px - this.box.left) / this.box.width * (this.r.x1 - this.r.x0) : null; }
  px(x) { return this.box.left + (x - this.r.x0) / (this.r.x1 - this.r.x0) * this.box.width; }
  py(y) { return this.box.top + (1 - (y - this.r.y0) / (this.r.y1 - this.r.y0)) * this.box.height; }
  draw() {
    const scale = devicePixelRatio || 1, width = this.canvas.clientWidth, height = this.canvas.clientHeight;
    if (!width) return;
    this.canvas.width = width * scale;
    this.canvas.height = height * scale;
    const g = this.canvas.getContext('2d');
    g.scale(scale, scale);
    this.r = this.range();
    this.box = {left: 50, top: 8, width: width - 72, height: height - 30};
    g.font = '11px system-ui, sans-serif';
    g.fillStyle = css('soft');
    g.strokeStyle = css('line');
    g.lineWidth = 1;
    g.textAlign = 'right'; g.textBaseline = 'middle';
    const levels = ticks(this.r.y0, this.r.y1, Math.max(2, this.box.height / 34)), levelLabels = tickLabels(levels);
    for (const [i, t] of levels.entries()) {
      const y = Math.round(this.py(t)) + .5;
      g.beginPath(); g.moveTo(this.box.left, y); g.lineTo(this.box.left + this.box.width, y); g.stroke();
      g.fillText(levelLabels[i], this.box.left - 7, y);
    }
    g.textAlign = 'center'; g.textBaseline = 'top';
    const places = this.onlyX === null ? ticks(this.r.x0, this.r.x1, Math.max(2, this.box.width / 90)) : [this.onlyX], placeLabels = tickLabels(places);
    for (const [i, t] of places.entries()) {
      const x = this.px(t);
      const text = placeLabels[i] + (this.options.xUnit || ''), room = width - 2 - g.measureText(text).width / 2;
      if (x >= this.box.left - 1 && x <= this.box.left + this.box.width + 1) g.fillText(text, Math.min(x, room), this.box.top + this.box.height + 6);
    }
    this.labels = {x: placeLabels, y: levelLabels};
    this.points = 0;
    g.save();
    g.beginPath(); g.rect(this.box.left, 0, this.box.width, this.box.top + this.box.height); g.clip();
    this.series.forEach((s, i) => this.drawSeries(g, s, s.color || seriesColor(i)));
    g.restore();
    this.picture = g.getImageData(0, 0, this.canvas.width, this.canvas.height);
    this.drawCursor();
  }
  drawSeries(g, s, color) {
    g.strokeStyle = color; g.lineWidth = 1.7; g.lineJoin = 'round';
    g.beginPath();
    let pen = false, first = null, last = 0;
    for (let i = 0; i < s.x.length; ++i) {
      if (s.y[i] === null || Number.isNaN(s.y[i])) { pen = false; continue; }
      const x = this.px(s.x[i]), y = this.py(s.y[i]);
      pen ? g.lineTo(x, y) : g.moveTo(x, y);
      if (first === null) first = x;
      last = x; pen = true; ++this.points;
    }
    g.stroke();
    if (s.fill && first !== null) {
      const base = this.py(Math.max(0, this.r.y0));
      g.lineTo(last, base); g.lineTo(first, base); g.closePath();
      g.globalAlpha = .13; g.fillStyle = color; g.fill(); g.globalAlpha = 1;
    }
    if (s.x.length < 40) {
      g.fillStyle = color;
      for (let i = 0; i < s.x.length; ++i) {
        if (s.y[i] === null || Number.isNaN(s.y[i])) continue;
        g.beginPath(); g.arc(this.px(s.x[i]), this.py(s.y[i]), 2.3, 0, 7); g.fill();
      }
    }
  }
  // Shows the values at the cursor, or the last values.
  drawCursor() {
    if (!this.box) return;
    const g = this.canvas.getContext('2d'), scale = devicePixelRatio || 1, x = this.group.x;
    g.putImageData(this.picture, 0, 0);
    if (x !== null && x >= this.r.x0 && x <= this.r.x1) {
      const px = Math.round(this.px(x)) + .5;
      g.strokeStyle = css('soft'); g.lineWidth = 1; g.setLineDash([3, 3]);
      g.beginPath(); g.moveTo(px, this.box.top); g.lineTo(px, this.box.top + this.box.height); g.stroke();
      g.setLineDash([]);
    }
    if (this.options.hideValues) return;
    this.values.replaceChildren(...this.series.slice(0, 8).map((s, i) => {
      const at = x === null ? s.x.length - 1 : nearest(s.x, x);
      const item = document.createElement('span'), mark = document.createElement('i');
      mark.style.background = s.color || seriesColor(i);
      item.append(mark, (s.name ? s.name + ' ' : '') + formatNumber(s.y[at]));
      if (x !== null && s.y[at] !== null && !Number.isNaN(s.y[at])) {
        g.fillStyle = s.color || seriesColor(i);
        g.beginPath(); g.arc(this.px(s.x[at]), this.py(s.y[at]), 3.2, 0, 7); g.fill();
      }
      return item;
    }));
  }
}

function nearest(xs, x) {
  let low = 0, high = xs.length - 1;
  while (low < high) { const mid = (low + high) >> 1; xs[mid] < x ? low = mid + 1 : high = mid; }
  return low > 0 && x - xs[low - 1] < xs[low] - x ? low - 1 : low;
}

