// SPDX-License-Identifier: Apache-2.0
// The zoomable timeline of all threads. A frame costs a few binary searches per pixel, independent of
// the number of spans. A pixel with several spans shows how much of it they fill.

async function unpackSpans(data) {
  if (!data.spans) return [];
  const bytes = await inflate(data.spans);
  let at = 0;
  const number = () => {
    let value = 0, factor = 1;
    while (true) {
      const byte = bytes[at++];
      value += (byte & 0x7f) * factor;
      if (byte < 0x80) return value;
      factor *= 128;
    }
  };
  const tracks = [];
  for (const process of data.processes) {
    for (const thread of process.threads) {
      const n = thread.spans;
      const t = {process, thread, n, begin: new Float64Array(n), end: new Float64Array(n), name: new Uint32Array(n), cat: new Uint8Array(n), depth: new Uint8Array(n), args: new Uint32Array(n), bytes};
      let previous = 0, depths = 0;
      for (let i = 0; i < n; ++i) {
        t.begin[i] = previous += number();
        t.end[i] = previous + number();
        t.name[i] = number();
        t.cat[i] = number();
        t.depth[i] = Math.min(255, number());
        depths = Math.max(depths, t.depth[i] + 1);
        t.args[i] = at;
        for (let a = 2 * number(); a > 0; --a) number();
      }
      t.lanes = makeLanes(t, depths);
      if (n > 0) tracks.push(t);
    }
  }
  return tracks;
}

async function inflate(base64) {
  const packed = Uint8Array.from(atob(base64), c => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// Spans of one depth do not overlap: their begins and their ends ascend.
function makeLanes(t, depths) {
  const counts = new Uint32Array(depths);
  for (let i = 0; i < t.n; ++i) ++counts[t.depth[i]];
  const lanes = Array.from(counts, n => ({n, span: new Uint32Array(n), begin: new Float64Array(n), end: new Float64Array(n), sum: new Float64Array(n + 1)}));
  counts.fill(0);
  for (let i = 0; i < t.n; ++i) {
    const lane = lanes[t.depth[i]], k = counts[t.depth[i]]++;
    lane.span[k] = i;
    lane.begin[k] = t.begin[i];
    lane.end[k] = t.end[i];
    lane.sum[k + 1] = lane.sum[k] + t.end[i] - t.begin[i];
  }
  return lanes;
}

// The first index from `low` on whose value is above (or at) x.
function firstAbove(values, x, low, orAt) {
  let step = 1, high = low;
  while (high < values.length && !(values[high] > x || orAt && values[high] === x)) { low = high + 1; high += step; step *= 2; }
  high = Math.min(high, values.length);
  while (low < high) {
    const mid = (low + high) >> 1;
    values[mid] > x || orAt && values[mid] === x ? high = mid : low = mid + 1;
  }
  return low;
}

class Timeline {
  constructor(canvas, data, tracks, onSelect) {
    this.canvas = canvas; this.onSelect = onSelect;
    this.hit = null; this.filter = null; this.selected = null; this.moved = false;
    this.lane = 18; this.gap = 14; this.head = 26; this.left = 150;
    this.listen();
    new ResizeObserver(() => this.draw()).observe(canvas);
    this.setData(data, tracks);
  }
  setData(data, tracks) {
    this.data = data; this.tracks = tracks;
    let first = Infinity, last = 0;
    for (const t of tracks) {
      first = Math.min(first, t.begin[0]);
      for (let i = 0; i < t.lanes[0].n; i += Math.max(1, t.lanes[0].n - 1)) last = Math.max(last, t.lanes[0].end[i]);
    }
    this.first = tracks.length ? first : 0;
    this.last = Math.max(last, this.first + 1000);
    if (!this.moved) this.showAll();
    this.layout();
    this.draw();
  }
  layout() {
    let y = this.head + 6, process = null;
    for (const t of this.tracks) {
      if (t.process !== process) { y += process ? this.gap : 4; process = t.process; t.firstOfProcess = true; y += 18; }
      t.top = y;
      t.height = Math.max(1, t.lanes.length) * this.lane;
      y += t.height + 6;
    }
    this.height = Math.max(90, y + 8);
    this.canvas.style.height = this.height + 'px';
    // The tracks and times where flows begin and end.
    this.flows = new Map();
    for (const t of this.tracks) t.byTid = t.thread.tid;
    for (const process of this.data.processes) {
      for (const [id, out, tid, time] of process.flows) {
        const track = this.tracks.find(t => t.process === process && t.thread.tid === tid);
        if (!track) continue;
        const flow = this.flows.get(id) || {};
        flow[out ? 'from' : 'to'] = {track, time};
        this.flows.set(id, flow);
      }
    }
    this.arrows = [...this.flows.values()].filter(f => f.from && f.to).sort((a, b) => a.from.time - b.from.time);
  }
  get perPixel() { return (this.view.end - this.view.begin) / Math.max(1, this.canvas.clientWidth - this.left); }
  x(time) { return this.left + (time - this.view.begin) / this.perPixel; }
  time(x) { return this.view.begin + (x - this.left) * this.perPixel; }
  color(t, i) { return this.colors[t.cat[i]][t.name[i] % 3]; }
  prepareColors() {
    const mixed = (base, other, share) => '#' + [1, 3, 5].map(i => Math.round(parseInt(base.slice(i, i + 2), 16) * share + other * (1 - share)).toString(16).padStart(2, '0')).join('');
    this.colors = this.data.cats.map(cat => {
      const base = css(cat) || css('op');
      return [base, mixed(base, 255, .82), mixed(base, 0, .84)];
    });
  }
  draw() {
    if (this.queued) return;
    this.queued = true;
    requestAnimationFrame(() => { this.queued = false; this.paint(); });
  }
  paint() {
    const start = performance.now(), scale = devicePixelRatio || 1, width = this.canvas.clientWidth;
    if (!width) return;
    this.canvas.width = width * scale;
    this.canvas.height = this.height * scale;
    const g = this.g = this.canvas.getContext('2d');
    g.scale(scale, scale);
    this.prepareColors();
    this.painted = 0;
    this.paintAxis(g, width);
    for (const t of this.tracks) this.paintTrack(g, t, width);
    this.paintArrows(g);
    this.frameMs = performance.now() - start;
  }
  paintAxis(g, width) {
    g.font = '11px system-ui, sans-serif';
    g.fillStyle = css('soft'); g.strokeStyle = css('line'); g.textBaseline = 'middle'; g.textAlign = 'left';
    const span = this.view.end - this.view.begin;
    const unit = span > 2e9 ? [1e9, 's'] : span > 2e6 ? [1e6, 'ms'] : span > 2e3 ? [1e3, 'µs'] : [1, 'ns'];
    for (const t of ticks(this.view.begin / unit[0], this.view.end / unit[0], (width - this.left) / 110)) {
      const x = Math.round(this.x(t * unit[0])) + .5;
      g.beginPath(); g.moveTo(x, this.head); g.lineTo(x, this.height); g.stroke();
      const text = `${+t.toPrecision(12)} ${unit[1]}`;
      g.textAlign = x + 6 + g.measureText(text).width > width ? 'right' : 'left';
      g.fillText(text, g.textAlign === 'left' ? x + 4 : x - 4, 14);
    }
    g.beginPath(); g.moveTo(0, this.head + .5); g.lineTo(width, this.head + .5); g.stroke();
  }
  paintTrack(g, t, width) {
    g.textAlign = 'left'; g.textBaseline = 'middle';
    if (t.firstOfProcess) {
      g.fillStyle = css('ink'); g.font = '600 12px system-ui, sans-serif';
      g.fillText(t.process.name, 12, t.top - 11);
    }
    g.fillStyle = css('soft'); g.font = '11.5px system-ui, sans-serif';
    g.fillText(this.fit(g, t.thread.name || 'thread ' + t.thread.tid, this.left - 30), 20, t.top + this.lane / 2);
    g.save();
    g.beginPath(); g.rect(this.left, t.top, width - this.left, t.height); g.clip();
    t.lanes.forEach((lane, depth) => this.paintLane(g, t, lane, t.top + depth * this.lane));
    g.restore();
  }
  paintLane(g, t, lane, y) {
    const per = this.perPixel, h = this.lane - 2;
    let i = firstAbove(lane.end, this.view.begin, 0, false);
    while (i < lane.n && lane.begin[i] < this.view.end) {
      const span = lane.span[i], x0 = this.x(lane.begin[i]), x1 = this.x(lane.end[i]);
      const dim = this.filter && !this.filter.has(t.name[span]);
      ++this.painted;
      if (x1 - x0 >= 1.5) {
        g.globalAlpha = dim ? .16 : 1;
        g.fillStyle = this.color(t, span);
        const a = Math.max(x0, this.left - 2), b = Math.min(x1, this.canvas.clientWidth + 2);
        g.fillRect(a, y, Math.max(1, b - a - (b - a > 4 ? .7 : 0)), h);
        if (b - a > 34) this.label(g, t, span, a, b, y, h);
        if (this.selected && this.selected.track === t && this.selected.index === span) {
          g.globalAlpha = 1; g.strokeStyle = css('ink'); g.lineWidth = 2; g.strokeRect(a + 1, y + 1, Math.max(2, b - a - 2), h - 2);
        }
        ++i;
        continue;
      }
      const column = Math.floor(x0), end = this.time(column + 1);
      let j = Math.max(i + 1, firstAbove(lane.begin, end, i, true));
      if (j > i + 1 && (lane.end[j - 1] - lane.begin[j - 1]) / per >= 1.5) --j;  // a long one begins in this column
      const filled = Math.min(1, (lane.sum[j] - lane.sum[i]) / per);
      let shown = span;
      if (this.filter && dim && j - i < 400) for (let k = i; k < j; ++k) if (this.filter.has(t.name[lane.span[k]])) { shown = lane.span[k]; break; }
      g.globalAlpha = (.25 + .75 * filled) * (this.filter && !this.filter.has(t.name[shown]) ? .16 : 1);
      g.fillStyle = this.color(t, shown);
      g.fillRect(column, y, 1, h);
      i = j;
    }
    g.globalAlpha = 1;
  }
  label(g, t, span, a, b, y, h) {
    g.fillStyle = 'rgba(255,255,255,.96)'; g.font = '11px system-ui, sans-serif';
    const from = Math.max(a, this.left) + 5;
    const name = this.data.names[t.name[span]];
    const text = this.fit(g, b - from > 120 ? `${name}  ${formatDuration(t.end[span] - t.begin[span])}` : name, b - from - 6);
    if (text.length > 1) g.fillText(text, from, y + h / 2 + .5);
  }
  fit(g, text, width) {
    if (g.measureText(text).width <= width) return text;
    let n = Math.max(0, Math.floor(text.length * width / g.measureText(text).width) - 1);
    return n > 1 ? text.slice(0, n) + '…' : '';
  }
  paintArrows(g) {
    const first = this.view.begin, last = this.view.end;
    const seen = this.arrows.filter(a => a.to.time > first && a.from.time < last);
    this.arrowsPainted = 0;
    if (seen.length > 400) return;
    g.strokeStyle = css('network'); g.lineWidth = 1.2; g.globalAlpha = .75;
    for (const a of seen) {
      const x0 = this.x(a.from.time), y0 = a.from.track.top + this.lane, x1 = this.x(a.to.time), y1 = a.to.track.top;
      if (x1 < this.left || x0 < this.left) continue;
      g.beginPath(); g.moveTo(x0, y0); g.bezierCurveTo(x0 + 26, y0, x1 - 26, y1, x1, y1); g.stroke();
      g.beginPath(); g.moveTo(x1, y1); g.lineTo(x1 - 5, y1 - 4); g.lineTo(x1 - 5, y1 + 3); g.closePath(); g.fillStyle = css('network'); g.fill();
      ++this.arrowsPainted;
    }
    g.globalAlpha = 1;
  }
  at(px, py) {
    const t = this.tracks.find(t => py >= t.top && py < t.top + t.height);
    if (!t || px < this.left) return null;
    const lane = t.lanes[Math.floor((py - t.top) / this.lane)];
    const reach = this.perPixel, time = this.time(px);
    if (!lane) return null;
    const k = firstAbove(lane.end, time - reach, 0, false);
    return k < lane.n && lane.begin[k] <= time + reach ? {track: t, index: lane.span[k]} : null;
  }
  describe({track: t, index: i}) {
    let at = t.args[i];
    const number = () => {
      let value = 0n, shift = 0n;
      while (true) {
        const byte = t.bytes[at++];
        value |= BigInt(byte & 0x7f) << shift;
        if (byte < 0x80) return value;
        shift += 7n;
      }
    };
    const args = {};
    for (let a = Number(number()); a > 0; --a) {
      const name = this.data.names[Number(number())], zigzag = number();
      args[name] = Number(zigzag & 1n ? -(zigzag >> 1n) - 1n : zigzag >> 1n);
    }
    return {name: this.data.names[t.name[i]], cat: this.data.cats[t.cat[i]], process: t.process.name, thread: t.thread.name || 'thread ' + t.thread.tid, begin: t.begin[i], duration: t.end[i] - t.begin[i], args};
  }
  zoom(factor, px) {
    const time = this.time(px === undefined ? (this.left + this.canvas.clientWidth) / 2 : Math.max(px, this.left));
    const all = this.last - this.first;
    const length = Math.min(all * 1.1, Math.max(50, (this.view.end - this.view.begin) * factor));
    const share = (time - this.view.begin) / (this.view.end - this.view.begin);
    this.show(time - share * length, time + (1 - share) * length);
  }
  show(begin, end) {
    const length = end - begin, low = this.first - length * .5, high = this.last + length * .5;
    if (begin < low) { begin = low; end = low + length; }
    if (end > high) { end = high; begin = high - length; }
    this.view = {begin, end};
    this.moved = true;
    this.draw();
  }
  // Shows the whole run; of a live run, the latest part of the training thread.
  showAll() {
    const first = this.data.live && this.tracks.length ? this.tracks[0].begin[0] : this.first;
    this.view = {begin: first, end: this.last};
  }
  reset() { this.showAll(); this.moved = false; this.draw(); }
  search(text) {
    text = text.trim().toLowerCase();
    this.filter = text ? new Set(this.data.names.flatMap((n, i) => n.toLowerCase().includes(text) ? [i] : [])) : null;
    this.matches = 0;
    if (this.filter) for (const t of this.tracks) for (let i = 0; i < t.n; ++i) if (this.filter.has(t.name[i])) ++this.matches;
    this.draw();
    return this.matches;
  }
  // The match after (or before) the selected span, over all tracks by time.
  step(direction) {
    if (!this.filter) return;
    const from = this.selected ? this.selected.track.begin[this.selected.index] : direction > 0 ? -1 : Infinity;
    let best = null;
    for (const t of this.tracks) {
      let i = firstAbove(t.begin, from, 0, direction < 0);
      if (direction > 0) while (i < t.n && !this.filter.has(t.name[i])) ++i;
      else do --i; while (i >= 0 && !this.filter.has(t.name[i]));
      if (i < 0 || i >= t.n) continue;
      if (!best || (t.begin[i] - best.track.begin[best.index]) * direction < 0) best = {track: t, index: i};
    }
    if (best) this.select(best, true);
  }
  select(hit, center) {
    this.selected = hit;
    if (hit && center) {
      const t = hit.track, length = Math.max((t.end[hit.index] - t.begin[hit.index]) * 4, Math.min(this.view.end - this.view.begin, 4e6));
      const middle = (t.begin[hit.index] + t.end[hit.index]) / 2;
      this.show(middle - length / 2, middle + length / 2);
    }
    this.onSelect(hit ? this.describe(hit) : null);
    this.draw();
  }
  listen() {
    const c = this.canvas, tip = document.getElementById('tip');
    let drag = null;
    c.addEventListener('wheel', e => {
      e.preventDefault();
      if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
        const d = (e.deltaX || e.deltaY) * this.perPixel;
        this.show(this.view.begin + d, this.view.end + d);
      } else {
        this.zoom(Math.exp(Math.max(-300, Math.min(300, e.deltaY)) * .002), e.offsetX);
      }
    }, {passive: false});
    c.addEventListener('pointerdown', e => { drag = {x: e.offsetX, view: {...this.view}, far: false}; c.setPointerCapture(e.pointerId); });
    c.addEventListener('pointermove', e => {
      if (drag) {
        const d = (drag.x - e.offsetX) * this.perPixel;
        drag.far = drag.far || Math.abs(drag.x - e.offsetX) > 3;
        if (drag.far) { c.classList.add('moving'); this.show(drag.view.begin + d, drag.view.end + d); }
        return;
      }
      const hit = this.at(e.offsetX, e.offsetY);
      tip.hidden = !hit;
      if (!hit) return;
      const s = this.describe(hit);
      tip.textContent = `${s.name} · ${formatDuration(s.duration)} · ${Object.entries(s.args).map(([k, v]) => `${k} ${v.toLocaleString('en')}`).join(', ')}`;
      tip.style.left = Math.min(e.clientX + 14, innerWidth - 300) + 'px';
      tip.style.top = e.clientY + 16 + 'px';
    });
    c.addEventListener('pointerup', e => {
      c.classList.remove('moving');
      if (drag && !drag.far) this.select(this.at(e.offsetX, e.offsetY), false);
      drag = null;
    });
    c.addEventListener('pointerleave', () => { tip.hidden = true; });
    c.addEventListener('dblclick', e => { const hit = this.at(e.offsetX, e.offsetY); hit ? this.select(hit, true) : this.reset(); });
    c.addEventListener('keydown', e => {
      const move = (this.view.end - this.view.begin) * .15;
      const keys = {w: () => this.zoom(.75), s: () => this.zoom(1.33), a: () => this.show(this.view.begin - move, this.view.end - move), d: () => this.show(this.view.begin + move, this.view.end + move), Escape: () => this.select(null)};
      if (keys[e.key]) { keys[e.key](); e.preventDefault(); }
    });
  }
}

