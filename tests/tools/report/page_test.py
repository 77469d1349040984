#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the report page and the live page in a browser: page_test.py BIN_DIR SCREENSHOT_DIR

Skipped (exit status 77) where there is no Chromium.
"""
import gzip
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import browser  # noqa: E402

BIN, SHOTS = sys.argv[1], pathlib.Path(sys.argv[2])
FEATURES = 1000000
SKIPPED = 77
READY = "window.millrace && millrace.timeline && millrace.timeline.frameMs > 0"


def run(*words):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=True)


def million_spans(path):
    """A trace of a million spans in four threads, three deep."""
    events = []
    for step in range(62500):
        begin = step * 40
        events.append(f'{{"ph":"X","cat":"step","name":"step","pid":1,"tid":1,"ts":{begin},"dur":36,"args":{{"rows":100}}}}')
        for k in range(6):
            events.append(
                f'{{"ph":"X","cat":"compute","name":"op{k}","pid":1,"tid":1,"ts":{begin + 6 * k},"dur":5,"args":{{"rows":{step}}}}}'
            )
        for tid in (2, 3, 4):
            for k in range(3):
                events.append(
                    f'{{"ph":"X","cat":"input","name":"decode","pid":1,"tid":{tid},"ts":{begin + 12 * k},"dur":9,"args":{{"rows":100}}}}'
                )
    text = '{"traceEvents":[' + ",\n".join(events) + '],"otherData":{"dropped_spans":"0","clock_offset_ns":"0","steady_origin_ns":"0"}}'
    path.write_text(text)
    return len(events)


def inked(page, selector):
    """How many pixels of the first such canvas are not empty."""
    return page.run(
        "const c = document.querySelector(arguments[0]), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
        "let n = 0; for (let i = 3; i < d.length; i += 4) if (d[i] > 0) ++n; return n;", selector)


def wait_until_drawn(page, selector, seconds=60):
    """A page that follows a run draws some frames after its data has arrived."""
    end = time.monotonic() + seconds
    while inked(page, selector) <= 500:
        assert time.monotonic() < end, f"{selector} stays empty for {seconds} s"
        time.sleep(0.1)


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="millrace-page-")
        cls.root = pathlib.Path(cls.folder.name)
        SHOTS.mkdir(parents=True, exist_ok=True)
        run(f"{BIN}/millrace-records", "synth", "--rows=120000", "--test_rows=5000", f"--num_features={FEATURES}",
            "--shards=2", f"--out={cls.root}/data")
        cls.data = [f"--train={cls.root}/data/train-*", f"--test={cls.root}/data/test-*", f"--num_features={FEATURES}"]

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def trained(self, name, *flags):
        run_dir = self.root / name
        run(f"{BIN}/millrace-lr", *self.data, "--profile", "--eval_every=20000", "--sample_ms=20", f"--run_dir={run_dir}", *flags)
        run(f"{BIN}/millrace-report", run_dir)
        return run_dir

    def canvas_box(self, page):
        return page.run("const c = document.getElementById('timeline-canvas'); c.scrollIntoView({block: 'center', behavior: 'instant'});"
                        "const b = c.getBoundingClientRect(); return {x: b.x, y: b.y, width: b.width, height: b.height};")

    def test_report_shows_curves_resources_and_timeline(self):
        run_dir = self.trained("report", "--epochs=2")
        trace = json.loads((run_dir / "trace-worker-0.json").read_text())
        spans = sum(event["ph"] == "X" for event in trace["traceEvents"])
        with browser.Browser() as page:
            page.open((run_dir / "report.html").as_uri())
            page.wait_for(READY)
            self.assertEqual(page.run("return millrace.timeline.tracks.reduce((n, t) => n + t.n, 0)"), spans)
            self.assertGreaterEqual(page.run("return millrace.curveCharts.length"), 8)
            self.assertTrue(page.run("return millrace.curveCharts.every(c => c.points >= 10)"))
            self.assertGreaterEqual(page.run("return millrace.resourceCharts.length"), 5)
            for selector in ("#curve-grid canvas", "#resource-stack canvas", "#timeline-canvas"):
                self.assertGreater(inked(page, selector), 500, selector)
            self.assertIn("-bound", page.run("return document.querySelector('.sentence').textContent"))
            page.screenshot(SHOTS / "report-light.png", whole_page=True)
            self.zoom_pan_and_click(page)
            self.long_spans_are_drawn(page)
            self.search_and_sort(page)
            self.shared_cursor(page)
            self.graph_keeps_its_shape(page)
            self.texts_fit_at_1400_pixels(page)
            page.run("document.getElementById('theme').click()")
            page.screenshot(SHOTS / "report-dark.png", whole_page=True)
            self.assertEqual(page.log(), [])

    def compared_runs(self, count, evaluations):
        """Folders of runs whose loss curves differ; the first three have test predictions."""
        folders = []
        for r in range(count):
            folder = self.root / f"compared/run-{r}"
            folder.mkdir(parents=True)
            (folder / "run.json").write_text(json.dumps({"status": "finished", "seconds": 9.5, "flags": {"learning_rate": f"{0.01 * (r + 1):.2f}"}}))
            rows = ["step,examples,epoch,seconds,loss,auc,logloss,examples_per_s"]
            for e in range(1, evaluations + 1):
                loss = 0.45 + 0.01 * r + 0.1 / e
                rows.append(f"{e},{1000 * e},0,{e / 10},{loss},{0.9 - loss / 3},{loss + 0.01},{10000 + 10 * r}")
            (folder / "metrics.csv").write_text("\n".join(rows) + "\n")
            if r < 3:
                noise = [0.3 * ((i * 7919 * (r // 2 + 1)) % 101 / 50 - 1) for i in range(500)]
                lines = [f"{int(i % 3 == 0)},1,{(1 if i % 3 == 0 else -1) + (3 if r == 2 else 1) * n:.4f}" for i, n in enumerate(noise)]
                (folder / "predictions.csv").write_text("label,weight,margin\n" + "\n".join(lines) + "\n")
            folders.append(folder)
        return folders

    def test_twenty_runs_are_compared_on_one_page(self):
        folders = self.compared_runs(20, 300)
        run(f"{BIN}/millrace-report", *folders)
        for width, dark in ((1400, False), (400, True)):
            with browser.Browser(width=max(width, 500), dark=dark) as page:
                page.resize(width, 1000)
                page.open((folders[0] / "compare.html").as_uri())
                page.wait_for("window.millrace && millrace.charts.length > 0")
                self.assertEqual(page.run("return millrace.charts.map(c => c.chart.series.length)"), [20] * 4)
                self.assertEqual(page.run("return millrace.charts[0].name"), "logloss")
                self.assertEqual(page.run("return new Set(millrace.charts[0].chart.series.map(s => s.color)).size"), 20)
                self.assertLessEqual(page.run("return document.documentElement.scrollWidth"), width)
                self.assertEqual(page.run("return [...document.querySelectorAll('.result')].map(r => r.textContent)"), ["tie", "worse"])
                self.assertIn("0.05", page.run("return document.getElementById('flags-table').textContent"))
                # Moving the cursor draws all charts; a frame of 60 a second has 16.7 ms.
                page.screenshot(SHOTS / f"compare-{width}.png", whole_page=True)
                cost = page.run("const c = millrace.charts[0].chart, begin = performance.now();"
                                "for (let i = 0; i < 50; ++i) c.group.set(1000 * i); return (performance.now() - begin) / 50;")
                self.assertLess(cost, 50, "ms for each move of the cursor")
                page.run("document.querySelector('.chip').click()")
                self.assertEqual(page.run("return millrace.charts[0].chart.series.length"), 19)
                self.assertEqual(page.log(), [])

    def test_small_run_without_a_trace_says_so(self):
        run_dir = self.root / "small"
        run(f"{BIN}/millrace-lr", *self.data, "--max_examples=3000", "--eval_every=1000", "--sample_ms=5", f"--run_dir={run_dir}")
        run(f"{BIN}/millrace-report", run_dir)
        with browser.Browser() as page:
            page.open((run_dir / "report.html").as_uri())
            page.wait_for("window.millrace && !!millrace.timeline")
            self.assertIn("Start it with --profile", page.run("return document.getElementById('no-trace').innerText"))
            self.assertEqual(page.run("return document.getElementById('timeline-canvas').clientHeight"), 0)
            self.assertTrue(page.run("return document.querySelector('nav a[href=\"#ops\"]').hidden"))
            labels = page.run("return [...millrace.curveCharts, ...millrace.resourceCharts].flatMap(c => [c.labels.x, c.labels.y])")
            self.assertGreater(len(labels), 10)
            for of_axis in labels:
                self.assertEqual(len(of_axis), len(set(of_axis)), of_axis)
            labels = page.run("return [[100, 100.5, 101], [12340, 12350], [0, .05, .1], [1.2e6, 1.21e6], [5, 5.000001]].map(tickLabels)")
            self.assertEqual(labels, [["100", "100.5", "101"], ["12.34 k", "12.35 k"], ["0", "0.05", "0.1"], ["1.2 M", "1.21 M"],
                                      ["5", "5.000001"]])
            page.screenshot(SHOTS / "without-trace.png", whole_page=True)
            self.assertEqual(page.log(), [])

    def graph_keeps_its_shape(self, page):
        width, height, of_width, of_height = page.run(
            "const box = document.getElementById('graph-box'), s = box.querySelector('svg'), v = s.viewBox.baseVal;"
            "box.style.width = '340px'; const sizes = [s.clientWidth, s.clientHeight, v.width, v.height];"
            "box.style.width = ''; return sizes;")
        self.assertLess(width, of_width)
        self.assertAlmostEqual(height, width * of_height / of_width, delta=2)
        furthest, boxes_end = page.run(
            "const right = n => { const b = n.getBBox(); return b.x + b.width; };"
            "return [Math.max(...[...document.querySelectorAll('#graph-box .back')].map(right)),"
            " Math.max(...[...document.querySelectorAll('#graph-box .box')].map(n => n.transform.baseVal[0].matrix.e)) + boxSize.width];")
        self.assertLess(furthest, boxes_end + 20)

    def texts_fit_at_1400_pixels(self, page):
        # The longest names and numbers of a job.
        room, needed = page.run(
            "const row = {...millrace.data.ops[0], op: 'exchange_send (eval)', description: 'evaluation in parallel to training',"
            " where: 'worker input', output: '1,000 rows, 39,000 nnz, 14,110 keys', calls: 1234567, total_s: 469.69, bytes: 124.8e6};"
            "showOps({...millrace.data, ops: [row, ...millrace.data.ops]});"
            "const box = document.querySelector('#ops .scroll'), widths = [box.clientWidth, box.scrollWidth];"
            "showOps(millrace.data); return widths;")
        self.assertEqual(needed, room)
        time_end, share_begin, share_end = page.run(
            "const box = drawBox({title: 'x', detail: '', cat: 'compute', forward_s: 208.63e-6, backward_s: 0, share: 1}, {x: 0, y: 0}, 1, 1);"
            "document.querySelector('#graph-box svg').append(box);"
            "const [time, share] = [...box.querySelectorAll('.time')].map(n => n.getBBox()); box.remove();"
            "return [time.x + time.width, share.x, share.x + share.width];")
        self.assertLess(time_end, share_begin)
        self.assertLess(share_end, 176)

    def zoom_pan_and_click(self, page):
        box = self.canvas_box(page)
        before = page.run("return millrace.timeline.view")
        for _ in range(24):
            page.wheel(box["x"] + box["width"] * 0.6, box["y"] + 50, -240)
        page.wait_for("!millrace.timeline.queued")
        after = page.run("return millrace.timeline.view")
        self.assertLess(after["end"] - after["begin"], (before["end"] - before["begin"]) / 1000)
        page.drag(box["x"] + 700, box["y"] + 50, -200, 0)
        moved = page.run("return millrace.timeline.view")
        self.assertGreater(moved["begin"], after["begin"])
        self.assertAlmostEqual(moved["end"] - moved["begin"], after["end"] - after["begin"], delta=1)
        # To a step, and a click on it.
        page.run("document.getElementById('search').value = 'margins'; document.getElementById('search').oninput();"
                 "millrace.timeline.step(1); millrace.timeline.select(null);")
        page.wait_for("!millrace.timeline.queued")
        place = page.run(
            "const t = millrace.timeline, k = t.tracks.findIndex(t => t.thread.name === 'main'), track = t.tracks[k];"
            "const id = t.data.names.indexOf('margins'); let i = 0; while (track.name[i] !== id || track.begin[i] < t.view.begin) ++i;"
            "return {x: (t.x(track.begin[i]) + t.x(track.end[i])) / 2, y: track.top + track.depth[i] * t.lane + t.lane / 2, rows: 100};")
        box = self.canvas_box(page)
        page.click(box["x"] + place["x"], box["y"] + place["y"])
        details = page.wait_for("!document.getElementById('details').hidden && document.getElementById('details').textContent")
        self.assertTrue(details.startswith("margins"), details)
        self.assertIn("nnz3,900", details)
        page.screenshot(SHOTS / "report-span.png")

    def long_spans_are_drawn(self, page):
        """Each evaluation is a span in the training thread, drawn even if shorter ones end in the same pixel. The first one,
        which reads the files, is always long enough to be visible."""
        drawn = page.run(
            "const t = millrace.timeline, s = document.getElementById('search'); s.value = ''; s.oninput();"
            "document.getElementById('reset').click(); t.paint();"
            "const track = t.tracks.find(k => [...k.name].some(n => t.data.names[n] === 'evaluate')), lane = track.lanes[0], scale = devicePixelRatio || 1;"
            "const out = []; for (let i = 0; i < lane.n; ++i) {"
            "  if (t.data.names[track.name[lane.span[i]]] !== 'evaluate' || (lane.end[i] - lane.begin[i]) / t.perPixel < 3) continue;"
            "  const x = t.x((lane.begin[i] + lane.end[i]) / 2);"
            "  out.push(t.canvas.getContext('2d').getImageData(x * scale, (track.top + 4) * scale, 1, 1).data[3]); } return out;")
        self.assertGreater(len(drawn), 0)
        self.assertGreater(min(drawn), 200)

    def search_and_sort(self, page):
        page.run("const s = document.getElementById('search'); s.value = 'decode'; s.oninput();")
        found = page.run("return document.getElementById('found').textContent")
        self.assertRegex(found, r"[1-9][\d,]* spans")
        first = "document.querySelector('#op-table tbody tr').textContent"
        self.assertTrue(page.run("return " + first))
        page.run("[...document.querySelectorAll('#op-table th')].find(t => t.textContent === 'calls').click()")
        calls = page.run("return [...document.querySelectorAll('#op-table tbody tr')].map(r => +r.children[3].textContent.replace(/,/g, ''))")
        self.assertEqual(calls, sorted(calls, reverse=True))
        page.run("document.getElementById('reset').click()")

    def shared_cursor(self, page):
        chart = page.run("const c = millrace.resourceCharts[0].canvas; c.scrollIntoView({block: 'center', behavior: 'instant'});"
                         "const b = c.getBoundingClientRect(); return [b.x + b.width / 2, b.y + 30];")
        page.pointer({"type": "pointerMove", "duration": 0, "x": int(chart[0]), "y": int(chart[1])})
        self.assertTrue(page.run("return millrace.group.x !== null && millrace.resourceCharts.every(c => c.group === millrace.group)"))

    def test_a_million_spans_stay_smooth(self):
        run_dir = self.root / "million"
        run_dir.mkdir()
        spans = million_spans(run_dir / "trace-worker-0.json")
        self.assertGreaterEqual(spans, 1000000)
        run(f"{BIN}/millrace-report", run_dir)
        with gzip.open(run_dir / "trace-all.json.gz", "rt") as file:
            merged = json.load(file)
        self.assertEqual(sum(event["ph"] == "X" for event in merged["traceEvents"]), spans)
        with browser.Browser() as page:
            page.open((run_dir / "report.html").as_uri())
            page.wait_for(READY, 120)
            self.assertEqual(page.run("return millrace.timeline.tracks.reduce((n, t) => n + t.n, 0)"), spans)
            times = page.run_async(
                "const done = arguments[0], t = millrace.timeline, times = []; let k = 0;"
                "function frame() { if (k++ === 60) return done(times);"
                "  t.zoom(k < 40 ? .8 : 1.5, 300 + 10 * k); t.paint(); times.push(t.frameMs); requestAnimationFrame(frame); } frame();")
            times.sort()
            print(f"{spans} spans: a frame takes {times[len(times) // 2]:.1f} ms at the median, {times[-1]:.1f} at most; "
                  f"page of {(run_dir / 'report.html').stat().st_size / 1e6:.1f} MB")
            self.assertLess(times[len(times) // 2], 100)  # without a GPU, and with other tests in parallel
            page.run("document.getElementById('reset').click()")
            page.screenshot(SHOTS / "million.png")
            self.assertEqual(page.log(), [])

    def check_net(self, name, command, layers, processes):
        """The report of a net's run: a row for each layer and direction, the graph, the timeline."""
        run_dir = self.root / name
        run(*command, f"--run_dir={run_dir}", "--profile", "--sample_ms=20")
        text = run(f"{BIN}/millrace-report", run_dir).stdout
        for layer in layers:
            self.assertRegex(text, rf"(?m)^{layer} forward +output of the layer +worker +\d+ rows")
            self.assertRegex(text, rf"(?m)^{layer} backward")
        with browser.Browser() as page:
            page.open((run_dir / "report.html").as_uri())
            page.wait_for(READY)
            boxes = page.run("return [...document.querySelectorAll('#graph-box .box')].map(b => b.textContent)")
            for layer in layers:
                box = next((box for box in boxes if box.startswith(layer)), "")
                self.assertRegex(box, r"→ [\dx]+.*/step[\d.]+ %")
            self.assertEqual(page.run("return millrace.data.processes.filter(p => p.threads.length).map(p => p.name)"), processes)
            page.run("const s = document.getElementById('search'); s.value = arguments[0]; s.oninput();", f"{layers[0]} backward")
            self.assertRegex(page.run("return document.getElementById('found').textContent"), r"[1-9][\d,]* spans")
            page.run("document.getElementById('search').value = ''; document.getElementById('search').oninput();")
            page.screenshot(SHOTS / f"{name}.png", whole_page=True)
            self.assertEqual(page.log(), [])
        return text

    def test_lenet_has_its_layers(self):
        net = [f"{BIN}/millrace-convnet", "--net=lenet", "--data=synthetic", "--synthetic_images=640", "--batch_size=64", "--epochs=2"]
        layers = ["conv1", "conv2", "fc3", "fc4", "fc5"]
        self.check_net("lenet", net, layers, ["worker-0"])
        job = [f"{BIN}/millrace-launch", "--num_ps=1", "--num_workers=2", "--", *net, "--mode=sync"]
        text = self.check_net("lenet-job", job, layers, ["worker-0", "worker-1", "ps-0"])
        self.assertRegex(text, r"predicted 494 kB \(61,706 parameters")

    def test_alexnet_has_its_layers(self):
        self.check_net("alexnet", [f"{BIN}/millrace-convnet", "--net=alexnet", "--data=synthetic", "--num_classes=10",
                                   "--synthetic_images=8", "--batch_size=4", "--epochs=1"],
                       [f"conv{i}" for i in range(1, 6)] + ["fc6", "fc7", "fc8"], ["worker-0"])

    def test_live_page_follows_the_run(self):
        port = browser.free_port()
        run_dir = self.root / "live"
        training = subprocess.Popen(
            [f"{BIN}/millrace-lr", *self.data, "--profile", "--eval_every=200000", "--epochs=100000", f"--run_dir={run_dir}",
             f"--dashboard={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            with browser.Browser() as page:
                self.wait_until_up(port)
                page.open(f"http://127.0.0.1:{port}/")
                page.wait_for("window.millrace && (millrace.updates || 0) >= 2 && millrace.timeline && millrace.timeline.tracks.length > 0")
                rows = page.run("return millrace.data.metrics.step ? millrace.data.metrics.step.length : 0")
                page.wait_for(f"millrace.data.metrics.step && millrace.data.metrics.step.length > {rows}")
                page.wait_for("/examples, .*left/.test(document.querySelector('.state').textContent)")
                self.assertFalse(page.run("return document.getElementById('live').hidden"))
                self.assertEqual(page.run("return document.querySelector('.pill').textContent"), "running")
                self.assertGreater(inked(page, "#timeline-canvas"), 500)
                self.assertGreaterEqual(page.run("return millrace.resourceCharts.length"), 4)
                self.bad_files_are_named(page, run_dir)
                page.screenshot(SHOTS / "live.png", whole_page=True)
                self.assertEqual(page.log(), [])
                self.check_metrics(port)
                self.assertIsNone(training.poll())
                self.foreign_scripts_are_blocked(page, port)
        finally:
            training.terminate()
            training.wait(timeout=60)

    def test_live_page_without_data_shows_its_state(self):
        port = browser.free_port()
        fifo = self.root / "blocked"
        os.mkfifo(fifo)
        training = subprocess.Popen(
            [f"{BIN}/millrace-lr", f"--train={fifo}", "--format=libsvm", f"--run_dir={self.root}/none", f"--dashboard={port}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            with browser.Browser() as page:
                self.wait_until_listening(port)
                page.open(f"http://127.0.0.1:{port}/")
                page.wait_for("/^Starting: /.test(document.querySelector('.state')?.textContent)")
        finally:
            training.kill()
            training.wait(timeout=60)

    def wait_until_listening(self, port):
        for _ in range(1200):
            try:
                return socket.create_connection(("127.0.0.1", port), 10).close()
            except OSError:
                time.sleep(0.05)
        return self.fail("the dashboard does not listen")

    def bad_files_are_named(self, page, run_dir):
        (run_dir / "resources-z.csv").write_text("x\n1\n2\n")
        os.mkfifo(run_dir / "resources-fifo.csv")
        page.wait_for("millrace.data.warnings.length === 2")
        lines = page.run("return [...document.querySelectorAll('#warnings li')].map(li => li.textContent)")
        self.assertRegex(lines[0], r"^Ignored: .*resources-fifo.csv: expected a regular file, found a FIFO$")
        self.assertRegex(lines[1], r"^Ignored: .*resources-z.csv: line 1: expected ")

    def foreign_scripts_are_blocked(self, page, port):
        headers = urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10).headers
        self.assertIn("frame-ancestors 'none'", headers["Content-Security-Policy"])
        self.assertNotIn("unsafe", headers["Content-Security-Policy"])
        self.assertEqual(headers["Referrer-Policy"], "no-referrer")
        page.run("const s = document.createElement('script'); s.textContent = 'window.injected = true'; document.body.append(s);")
        self.assertFalse(page.run("return !!window.injected"))

    def test_live_page_of_a_job_shows_all_processes(self):
        port = browser.free_port()
        run_dir = self.root / "job"
        job = subprocess.Popen(
            [f"{BIN}/millrace-launch", "--num_ps=2", "--num_workers=2", f"--dashboard={port}", "--", f"{BIN}/millrace-lr", *self.data,
             "--mode=sync", "--profile", "--eval_every=100000", "--epochs=100000", f"--run_dir={run_dir}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        names = ["worker-0", "worker-1", "ps-0", "ps-1"]
        try:
            with browser.Browser() as page:
                self.wait_until_up(port)
                page.open(f"http://127.0.0.1:{port}/")
                page.wait_for("window.millrace && millrace.data && millrace.data.metrics.step && millrace.data.metrics.step.length > 1", 60)
                page.wait_for("millrace.data.processes.filter(p => p.threads.length > 0).length === 4", 60)
                self.assertEqual(page.run("return millrace.data.processes.map(p => p.name)"), names)
                wait_until_drawn(page, "#timeline-canvas")
                page.screenshot(SHOTS / "live-job.png", whole_page=True)
                self.assertEqual(page.log(), [])
            values = self.check_metrics(port)
            for name in names:
                self.assertGreater(float(values[f'millrace_process_resident_bytes{{process="{name}"}}']), 0)
                self.assertGreater(float(values[f'millrace_process_network_bytes_total{{process="{name}",direction="sent"}}']), 0)
        finally:
            job.terminate()
            job.wait(timeout=60)
        self.assertEqual(list(run_dir.glob("recent-*")), [])

    def wait_until_up(self, port):
        for _ in range(1200):
            try:
                return urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10).read()
            except OSError:
                time.sleep(0.05)
        return self.fail("the dashboard does not respond")

    def check_metrics(self, port):
        text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10).read().decode()
        values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        self.assertEqual(values["millrace_up"], "1")
        self.assertGreater(float(values['millrace_process_cpu_seconds_total{process="worker-0",mode="user"}']), 0)
        self.assertGreater(float(values["millrace_last_test_examples"]), 0)
        return values


if __name__ == "__main__":
    if not browser.available():
        print("skipped:", browser.MISSING)
        sys.exit(SKIPPED)
    unittest.main(argv=sys.argv[:1], verbosity=2)
