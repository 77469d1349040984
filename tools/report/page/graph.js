// SPDX-License-Identifier: Apache-2.0
// The computation graph: boxes in lanes, in the order of the data flow, with the time of each.

const laneNames = {input: 'input threads', training: 'training', exchange: 'exchange', servers: 'servers'};
const boxSize = {width: 176, height: 74, gap: 24, left: 104, lane: 26};

const svg = (tag, attributes, text) => {
  const node = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes || {})) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return node;
};

// Rows of boxes: a new lane or a full row begins the next row.
function placeBoxes(nodes, width) {
  const {width: w, height: h, gap, left, lane} = boxSize;
  const fit = Math.max(1, Math.floor((width - left + gap) / (w + gap))), places = [], lanes = [];
  let x = 0, y = 8, last = null;
  for (const node of nodes) {
    if (node.lane !== last || x === fit) {
      if (last !== null) y += h + lane;
      if (node.lane !== last) lanes.push({name: laneNames[node.lane] || node.lane, y: y + h / 2});
      x = 0;
      last = node.lane;
    }
    places.push({x: left + x++ * (w + gap), y});
  }
  return {places, lanes, height: y + h + 12};
}

function arrowPath(from, to) {
  const {width: w, height: h, lane} = boxSize;
  if (from.y === to.y && to.x > from.x) return `M${from.x + w} ${from.y + h / 2}H${to.x - 3}`;
  const down = to.y > from.y, begin = [from.x + w / 2, down ? from.y + h : from.y], end = [to.x + w / 2, down ? to.y - 3 : to.y + h + 3];
  const middle = down ? end[1] - lane / 2 + 2 : end[1] + lane / 2 - 2;
  return `M${begin[0]} ${begin[1]}V${middle}H${end[0]}V${end[1]}`;
}

// Edges back to earlier boxes pass on the right of the boxes, or below them if all are in one row.
function backPath(from, to, right) {
  const {width: w, height: h, lane} = boxSize, over = to.y + h + lane / 2 - 4, below = from.y + h + 6;
  if (from.y === to.y) return `M${from.x + w / 2} ${from.y + h}V${over}H${to.x + w / 2 + 14}V${to.y + h + 3}`;
  return `M${from.x + w / 2} ${from.y + h}V${below}H${right}V${over}H${to.x + w / 2 + 14}V${to.y + h + 3}`;
}

const cut = (text, letters) => text.length > letters ? text.slice(0, letters - 1) + '…' : text;

function drawBox(node, place, steps, most) {
  const {width: w, height: h} = boxSize, group = svg('g', {transform: `translate(${place.x} ${place.y})`, class: 'box' + (node.op ? ' linked' : '')});
  const seconds = node.forward_s + node.backward_s, color = css(node.cat) || css('op');
  group.append(svg('rect', {width: w, height: h, rx: 9, class: 'frame'}), svg('rect', {width: 4, height: h - 18, x: 8, y: 9, rx: 2, fill: color, opacity: seconds > 0 ? 1 : .3}));
  group.append(svg('text', {x: 20, y: 21, class: 'name'}, cut(node.title, 18)));
  const [shape, parameters] = node.detail.replace('->', '→').replace(/^0 keys$/, '').split('; ');
  if (parameters) group.append(svg('text', {x: w - 12, y: 21, class: 'shape', 'text-anchor': 'end'}, formatNumber(parseInt(parameters, 10)) + ' params'));
  group.append(svg('text', {x: 20, y: 36, class: 'shape'}, cut(shape, 24)));
  if (seconds > 0) {
    group.append(svg('text', {x: 20, y: 52, class: 'time'}, formatDuration(seconds / steps * 1e9) + '/step'));
    group.append(svg('text', {x: w - 12, y: 52, class: 'time', 'text-anchor': 'end'}, (100 * node.share).toFixed(1) + ' %'));
  }
  const room = w - 32, forward = room * node.forward_s / most, backward = room * node.backward_s / most;
  group.append(svg('rect', {x: 20, y: 60, width: room, height: 5, rx: 2.5, class: 'track'}), svg('rect', {x: 20, y: 60, width: forward, height: 5, rx: 2.5, fill: color}),
    svg('rect', {x: 20 + forward, y: 60, width: backward, height: 5, rx: 2.5, fill: color, opacity: .5}));
  const parts = [node.title, node.detail];
  if (seconds > 0) parts.push(node.backward_s ? `forward ${formatDuration(node.forward_s * 1e9)}, backward ${formatDuration(node.backward_s * 1e9)} in total` : `${formatDuration(seconds * 1e9)} in total`);
  group.append(svg('title', {}, parts.filter(Boolean).join('\n')));
  if (node.op) group.onclick = () => findOp(node.op);
  return group;
}

function showGraph(data) {
  const box = $('graph-box'), {nodes, back} = data.graph || {nodes: [], back: []};
  if (!nodes.length) { box.replaceChildren(element('p', data.live && data.run['flags.profile'] === 'true' ? 'No steps yet.' : 'No steps were traced: start the run with --profile.', 'empty')); return; }
  const width = Math.max(460, box.clientWidth - 36), {places, lanes, height} = placeBoxes(nodes, width - 20);
  const picture = svg('svg', {width, height: height + 10, viewBox: `0 0 ${width} ${height + 10}`, role: 'img', 'aria-label': 'Computation graph'});
  const marker = svg('marker', {id: 'arrow', viewBox: '0 0 8 8', refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: 'auto'});
  marker.append(svg('path', {d: 'M0 0L8 4L0 8Z', class: 'tip'}));
  const definitions = svg('defs');
  definitions.append(marker);
  picture.append(definitions);
  for (const lane of lanes) picture.append(svg('text', {x: 2, y: lane.y + 4, class: 'lane'}, lane.name));
  for (let i = 1; i < places.length; ++i) picture.append(svg('path', {d: arrowPath(places[i - 1], places[i]), class: 'edge', 'marker-end': 'url(#arrow)'}));
  const right = Math.min(width - 6, Math.max(...places.map(p => p.x)) + boxSize.width + 14);
  for (const [from, to] of back) picture.append(svg('path', {d: backPath(places[from], places[to], right), class: 'edge back', 'marker-end': 'url(#arrow)'}));
  const steps = data.diagnosis.workers.reduce((n, w) => n + w.steps, 0) || 1, most = Math.max(...nodes.map(n => n.forward_s + n.backward_s)) || 1;
  nodes.forEach((node, i) => picture.append(drawBox(node, places[i], steps, most)));
  box.replaceChildren(picture);
}
