#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""millrace-serve as users and attackers meet it: the real daemon on a free port of loopback.

Usage: serve_test.py BIN_DIR TESTS_DIR
"""
import concurrent.futures
import csv
import http.client
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest

TESTS = pathlib.Path(sys.argv.pop(2)).resolve()
BIN = pathlib.Path(sys.argv.pop(1)).resolve()
EXAMPLES = pathlib.Path(__file__).resolve().parents[3] / "docs" / "examples" / "score_http"
SPEC = {
    "label": {"column": "clicked"},
    "hash_bits": 18,
    "fields": [
        {"name": "user", "rule": "hash"}, {"name": "country", "rule": "hash"}, {"name": "ad", "rule": "hash"},
        {"name": "price", "rule": "bucket", "boundaries": [1, 2, 5]}, {"name": "tags", "rule": "hash"},
        {"name": "country x ad", "rule": "cross", "of": ["country", "ad"]},
    ],
}


def run(program, *words, status=0):
    done = subprocess.run([str(program), *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=120, check=False)
    if done.returncode != status:
        raise AssertionError(f"{program} {words}: status {done.returncode}, expected {status}: {done.stdout}{done.stderr}")
    return done.stdout


def make_rows(seed, count):
    draw = random.Random(seed)
    return [{"clicked": draw.randrange(2), "user": f"u{draw.randrange(50)}", "country": draw.choice(["de", "fr", "ü\"\\"]),
             "ad": draw.randrange(40), "price": draw.randrange(1000) / 100, "tags": f"t{draw.randrange(9)}"} for _ in range(count)]


def write_csv(path, rows):
    with open(path, "w", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, rows[0])
        writer.writeheader()
        writer.writerows(rows)


class Daemon:
    """A running millrace-serve; the context manager kills it."""

    def __init__(self, *flags):
        self.log = tempfile.NamedTemporaryFile("r", prefix="serve-log", encoding="utf-8")
        with open(self.log.name, "w", encoding="utf-8") as err:
            self.process = subprocess.Popen([BIN / "millrace-serve", "--port=0", "--poll_seconds=0.02", *map(str, flags)],
                                            stdout=subprocess.PIPE, stderr=err, text=True)
        line = self.process.stdout.readline()
        found = re.search(r":(\d+)$", line.strip())
        if not found:
            raise AssertionError(f"no address in '{line}': {self.log.read()}, status {self.process.wait(30)}")
        self.port = int(found[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.log.close()

    def stop(self):
        self.process.terminate()
        return self.process.wait(30)

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)

    def ask(self, method, path, body=None, headers=None):
        """The code and the body of one request."""
        connection = self.connect()
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        text = response.read().decode()
        connection.close()
        return response.status, text

    def post(self, request):
        code, text = self.ask("POST", "/v1/score", json.dumps(request))
        return code, json.loads(text)

    def scores(self, request):
        code, reply = self.post(request)
        if code != 200:
            raise AssertionError(f"{code} {reply}")
        return reply["scores"]

    def metric(self, name):
        text = self.ask("GET", "/metrics")[1]
        return float(re.search(rf"^{re.escape(name)} (.*)$", text, re.M)[1])

    def wait_for_log(self, text):
        seen = ""
        for _ in range(1500):
            seen += self.log.read()
            if text in seen:
                return seen
            time.sleep(0.02)
        raise AssertionError(f"no '{text}' in the log: {seen}")

    def raw(self, data, half_close=False):
        """All bytes that the server sends back."""
        with socket.create_connection(("127.0.0.1", self.port), 30) as peer:
            try:
                peer.sendall(data)
                if half_close:
                    peer.shutdown(socket.SHUT_WR)
            except OSError:
                pass
            reply = b""
            try:
                while piece := peer.recv(65536):
                    reply += piece
            except OSError:
                pass
            return reply.decode(errors="replace")


class ServeTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.temporary.name)
        (cls.root / "spec.json").write_text(json.dumps(SPEC), encoding="utf-8")
        for seed, name in ((1, "a"), (2, "b")):
            write_csv(cls.root / f"{name}.csv", make_rows(seed, 4000))
            run(BIN / "millrace-lr", f"--train={cls.root}/{name}.csv", f"--features={cls.root}/spec.json",
                f"--run_dir={cls.root}/{name}")
            run(BIN / "millrace-predict", "export", f"--model={cls.root}/{name}", f"--out={cls.root}/{name}.serving")
        cls.rows = [{name: value for name, value in row.items() if name != "clicked"} for row in make_rows(3, 200)]

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def serve(self, model, *flags):
        return Daemon(f"--model={self.root}/{model}", *flags)

    def publish(self, name, folder, as_name="model.serving"):
        folder.mkdir(exist_ok=True)
        shutil.copy(self.root / f"{name}.serving", folder / ".new")
        os.utime(folder / ".new")
        os.replace(folder / ".new", folder / as_name)

    def test_c_python_and_curl_have_the_scores_of_predict(self):
        write_csv(self.root / "rows.csv", self.rows)
        expected = run(BIN / "millrace-predict", f"--model={self.root}/a", self.root / "rows.csv").split()
        lines = self.root / "rows.jsonl"
        lines.write_text("".join(json.dumps(row) + "\n" for row in self.rows), encoding="utf-8")
        with open(lines, encoding="utf-8") as rows:
            found = subprocess.run([TESTS / "score_rows", self.root / "a.serving"], stdin=rows, capture_output=True, text=True,
                                   timeout=120, check=True)
        self.assertEqual(found.stdout.split(), expected)
        request = json.dumps({"rows": self.rows})
        with self.serve("a") as daemon:  # a run folder, whose model is converted
            self.assertEqual(list(self.root.parent.glob("millrace-serve-*")), [])
            with self.serve("a.serving") as other:
                for server in (daemon, other):
                    code, text = server.ask("POST", "/v1/score", request)
                    self.assertEqual(code, 200, text)
                    self.assertEqual(re.search(r"\[(.*)\]", text)[1].split(","), expected)
            for program in self.http_clients():
                with open(lines, encoding="utf-8") as rows:
                    found = subprocess.run([*program, f"http://127.0.0.1:{daemon.port}"], stdin=rows, capture_output=True,
                                           text=True, timeout=120, check=True)
                self.assertEqual(found.stdout.split(), expected, program)
            (self.root / "request.json").write_text(request, encoding="utf-8")
            text = run("curl", "-sS", "--fail", "--data-binary", f"@{self.root}/request.json",
                       f"http://127.0.0.1:{daemon.port}/v1/score")
            self.assertEqual(re.search(r"\[(.*)\]", text)[1].split(","), expected)

    def test_the_example_of_cpp_ranks_candidates_as_the_daemon_does(self):
        context = {"user": "u1", "country": "de", "price": "3"}
        candidates = [{"ad": str(ad)} for ad in range(30)]
        with self.serve("a.serving") as daemon:
            scores = daemon.ask("POST", "/v1/score", json.dumps({"context": context, "candidates": candidates}))[1]
        scores = re.search(r"\[(.*)\]", scores)[1].split(",")
        order = sorted(range(30), key=lambda i: -float(scores[i]))
        found = run(TESTS / "score_candidates", self.root / "a.serving", *(f"{k}={v}" for k, v in context.items()), "--",
                    *(f"ad={row['ad']}" for row in candidates))
        self.assertEqual(found.splitlines(), [f"{scores[i]} ad={candidates[i]['ad']}" for i in order])
        done = subprocess.run([TESTS / "score_candidates", self.root / "a.csv", "a=1", "--", "b=1"], capture_output=True,
                              text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("a.csv: offset 0: expected a serving model", done.stderr)

    def http_clients(self):
        """The examples of docs/serving.md; Go where it is installed."""
        yield [sys.executable, EXAMPLES / "score.py"]
        if shutil.which("go"):
            client = self.root / "score_http"
            subprocess.run(["go", "build", "-o", client, EXAMPLES / "main.go"], check=True, timeout=300,
                           env={**os.environ, "GOCACHE": str(self.root / "go-cache"), "GOFLAGS": "-mod=mod"})
            yield [client]
        else:
            print("no go: its example is not run", file=sys.stderr)

    def test_all_forms_of_a_request_have_the_same_scores(self):
        context = {"user": "u1", "country": "de", "tags": ["x", "y"]}
        candidates = [{"ad": ad, "price": ad / 8} for ad in range(30)]
        candidates[3] = {"ad": 3, "price": None, "country": "fr"}
        joined = [{**context, **candidate} for candidate in candidates]
        with self.serve("a.serving") as daemon:
            expected = daemon.scores({"rows": joined})
            self.assertGreater(len(set(expected)), 20)
            self.assertEqual(daemon.scores({"context": context, "candidates": candidates}), expected)
            columns = {name: [row.get(name) for row in candidates] for name in ("ad", "price", "country")}
            self.assertEqual(daemon.scores({"context": context, "candidates": columns}), expected)
            columns = {name: [row.get(name) for row in joined] for name in ("price", "country", "user", "ad", "tags")}
            self.assertEqual(daemon.scores({"rows": columns}), expected)
            margins = daemon.scores({"rows": joined, "output": "margin"})
            self.assertEqual([m < 0 for m in margins], [p < 0.5 for p in expected])
            keys = daemon.scores({"keys": [[1, 2, 7], [1, 2, 9]], "values": [[1, 1, 0.5], [1, 1, 2]]})
            self.assertEqual(daemon.scores({"context_keys": [1, 2], "candidate_keys": [[7], [9]],
                                            "context_values": [1, 1], "candidate_values": [[0.5], [2]]}), keys)
            self.assertEqual(daemon.scores({"rows": []}), [])
            for path in ("/healthz", "/readyz", "/v1/model", "/metrics"):
                self.assertEqual(daemon.ask("GET", path)[0], 200, path)
            self.assertEqual(daemon.metric('millrace_serve_requests_total{protocol="http",code="200"}'), 8)
            self.assertEqual(daemon.metric("millrace_serve_rows_total"), 5 * 30 + 4)
            self.assertGreater(daemon.metric("millrace_serve_unknown_keys_total"), 0)
            self.assertEqual(json.loads(daemon.ask("GET", "/v1/model")[1])["feature_spec"]["fields"][3]["rule"], "bucket")

    def test_wrong_requests_get_an_error_that_says_what_is_wrong(self):
        wrong = [
            ("", "no valid JSON"), ("{", "no valid JSON"), ("[1]", "expected a JSON object, found an array"),
            ("{}", "no rows"), ('{"row": []}', "unknown member 'row'"), ('{"rows": 1}', "'rows': expected an array of rows"),
            ('{"rows": [1]}', "expected rows, objects, found a number"), ('{"rows": [], "keys": []}', "'keys' does not go with 'rows'"),
            ('{"context": {}}', "'context' needs 'candidates'"), ('{"rows": [{"usr": 1}]}', "'usr' is no field of the model"),
            ('{"context": {"x": 1}, "candidates": [{"ad": 1}]}', "'x' is no field of the model"),
            ('{"rows": [{"ad": [[1]]}]}', "'ad': expected a text, a number"), ('{"rows": [{"ad": 1, "ad": 2}]}', "'ad' comes twice"),
            ('{"rows": {"ad": [1, 2], "user": ["a"]}}', "'user': expected 2 values"), ('{"rows": {"ad": 1}}', "'ad': expected an array"),
            ('{"keys": [[-1]]}', "'keys': expected keys"), ('{"keys": [[1.5]]}', "'keys': expected keys"),
            ('{"keys": [[1, 2]], "values": [[1]]}', "'values': expected one for each key, 2 in row 0, found 1"),
            ('{"keys": [[1]], "values": []}', "'values': expected 1 rows"), ('{"rows": [], "output": "x"}', "'output': expected"),
            ('{"rows": [{"ad": 1e999}]}', "no valid JSON"), ('{"rows": [{"price": "cheap"}]}', "row 0"),
            ('{"rows": []} {}', "no valid JSON"), ("[" * 5000, "no valid JSON"),
        ]
        with self.serve("a.serving") as daemon:
            for body, message in wrong:
                code, text = daemon.ask("POST", "/v1/score", body)
                self.assertEqual(code, 400, f"{body[:80]}: {text}")
                self.assertIn(message, json.loads(text)["error"], body[:80])
            self.assertEqual(daemon.ask("POST", "/v1/score", b'{"rows": [{"ad": "\xff"}]}')[0], 400)
            for method, path, code in (("GET", "/v1/score", 405), ("POST", "/healthz", 405), ("GET", "/", 404), ("PUT", "/v1", 404)):
                self.assertEqual(daemon.ask(method, path, "")[0], code, path)
            self.assertEqual(daemon.ask("POST", "/v1/score", "{}", {"Host": "evil.example"})[0], 403)
            self.assertEqual(daemon.metric('millrace_serve_requests_total{protocol="http",code="400"}'), len(wrong) + 1)
            self.assertEqual(daemon.scores({"rows": [{"clicked": "?", "ad": 1}]}), daemon.scores({"rows": [{"ad": 1}]}))
        with self.serve("a.serving", "--unknown_fields=ignore") as daemon:
            self.assertEqual(daemon.scores({"rows": [{"usr": 1, "ad": 1}]}), daemon.scores({"rows": [{"ad": 1}]}))

    def test_hostile_clients_get_errors_and_others_are_served(self):
        head = "POST /v1/score HTTP/1.1\r\nHost: localhost\r\n"
        with self.serve("a.serving", "--max_body_mb=0.01", "--request_seconds=1") as daemon:
            keep = daemon.connect()
            request = json.dumps({"rows": self.rows[:2]})
            keep.request("POST", "/v1/score", request)
            expected = keep.getresponse().read()

            def others_are_served():
                keep.request("POST", "/v1/score", request)
                self.assertEqual(keep.getresponse().read(), expected)

            self.assertEqual(daemon.ask("POST", "/v1/score", "x" * 20000)[0], 413)
            self.assertIn("413", daemon.raw((head + "Content-Length: 99999999999\r\n\r\n").encode())[:12])
            self.assertIn("413", daemon.raw((head + f"Content-Length: {8 << 20}\r\n\r\n").encode() + b"x" * (8 << 20))[:12])
            self.assertIn("400", daemon.raw((head + "Content-Length: -1\r\n\r\n").encode())[:12])
            self.assertIn("400", daemon.raw((head + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab").encode())[:12])
            self.assertIn("431", daemon.raw((head + "X: " + "y" * 20000).encode())[:12])
            chunked = (head + "Transfer-Encoding: chunked\r\n\r\n").encode()
            for garbage in (b"zz\r\n", b"5\r\nab", b"-1\r\nab\r\n", b"ffffffffffffffffffff\r\n", b"4000\r\n" + b"x" * 20000):
                self.assertRegex(daemon.raw(chunked + garbage), r"^HTTP/1.1 4(00|08|13) ", garbage[:20])
            for noise in (b"\x16\x03\x01\x02\x00\x01\x00", b"\x00" * 64, b"\x00\x00\x00\x08\x80\x01\x00\x01zzzz", os.urandom(4096),
                          b"GET " * 4000, b"\x00\x00\x10\x00" + os.urandom(4096)):
                daemon.raw(noise, half_close=True)
                others_are_served()
            self.assertIn("408", daemon.raw((head + "Content-Length: 5\r\n\r\nab").encode())[:12])
            others_are_served()
            draw = random.Random(1)
            for _ in range(200):  # changed bytes of a valid request
                data = bytearray((head + f"Connection: close\r\nContent-Length: {len(request)}\r\n\r\n{request}").encode())
                for _ in range(draw.randrange(1, 8)):
                    data[draw.randrange(len(data))] = draw.randrange(256)
                daemon.raw(bytes(data), half_close=True)
            others_are_served()
            keep.close()

    def test_small_requests_that_multiply_their_keys_are_refused(self):
        many = list(range(30000))
        requests = [
            ({"rows": [{"country": many, "ad": many}]}, "row 0: cross 'country x ad': expected at most 1048576 keys"),
            ({"rows": [{"country": many[:1000], "ad": many[:1000]}] * 30}, "at most 1000000 keys"),
            ({"context": {"country": many[:1000]}, "candidates": {"ad": many}}, "at most 1000000 keys in one call"),
            ({"context": {"country": many, "ad": "x"}, "candidates": {"price": many}}, "at most 1000000 keys in one call"),
            ({"context_keys": many, "candidate_keys": [[1]] * 30000}, "at most 1000000 keys in one call"),
        ]
        with self.serve("a.serving") as daemon:
            for request, message in requests:
                code, reply = daemon.post(request)
                self.assertEqual(code, 400)
                self.assertIn(message, reply["error"])
            status = pathlib.Path(f"/proc/{daemon.process.pid}/status").read_text(encoding="utf-8")
            self.assertLess(int(re.search(r"VmHWM:\s+(\d+)", status)[1]), 400 << 10)

    def test_two_thousand_slow_connections_stop_nobody(self):
        limit, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
        with self.serve("a.serving", "--max_connections=1000", "--request_seconds=20") as daemon:
            slow = []
            for _ in range(2000):
                slow.append(socket.create_connection(("127.0.0.1", daemon.port), 30))
                slow[-1].send(b"POST /v1/score HT")
            begin = time.monotonic()
            for _ in range(50):
                self.assertEqual(daemon.post({"rows": self.rows[:2]})[0], 200)
            self.assertLess(time.monotonic() - begin, 10)
            self.assertLessEqual(daemon.metric("millrace_serve_connections"), 1000)
            self.assertGreaterEqual(daemon.metric("millrace_serve_connections_cut_total"), 1000)
            for peer in slow:
                peer.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))

    def test_newer_models_are_served_and_broken_ones_refused(self):
        folder = self.root / "published"
        self.publish("a", folder)
        request = {"rows": self.rows}
        with self.serve("a.serving") as a, self.serve("b.serving") as b:
            expected = {"a": a.scores(request), "b": b.scores(request)}
        self.assertNotEqual(expected["a"], expected["b"])
        with self.serve("published") as daemon:
            self.assertEqual(daemon.scores(request), expected["a"])
            self.publish("b", folder)
            daemon.wait_for_log("serves ")
            self.assertEqual(daemon.scores(request), expected["b"])
            data = bytearray((self.root / "a.serving").read_bytes())
            data[len(data) // 3] ^= 1
            (folder / "damaged.new").write_bytes(data)
            os.replace(folder / "damaged.new", folder / "z-damaged.serving")
            daemon.wait_for_log("z-damaged.serving is refused, the model that is loaded stays: ")
            (folder / "y-short.serving").write_bytes(data[:5000])
            daemon.wait_for_log("y-short.serving is refused")
            self.assertEqual(daemon.scores(request), expected["b"])
            self.assertEqual(daemon.metric("millrace_serve_model_refused_total"), 2)
            self.assertEqual(daemon.metric("millrace_serve_model_swaps_total"), 1)
            self.assertEqual(daemon.process.poll(), None)
        # The next start passes over the broken ones.
        with self.serve("published") as daemon:
            self.assertEqual(daemon.scores(request), expected["b"])
            self.publish("a", folder, "model.serving")
            daemon.wait_for_log("serves ")
            self.assertEqual(daemon.scores(request), expected["a"])

    def test_a_run_folder_is_followed(self):
        run_dir = self.root / "followed"
        shutil.copytree(self.root / "a", run_dir)
        request = {"rows": self.rows}
        with self.serve("b.serving") as b:
            expected = b.scores(request)
        with self.serve("followed") as daemon:
            self.assertNotEqual(daemon.scores(request), expected)
            shutil.copy(self.root / "b" / "model" / "model.bin", run_dir / "model" / "new")
            os.utime(run_dir / "model" / "new")
            os.replace(run_dir / "model" / "new", run_dir / "model" / "model.bin")
            daemon.wait_for_log("model.bin now")
            self.assertEqual(daemon.scores(request), expected)

    def test_swaps_under_load_fail_no_request_and_mix_no_models(self):
        folder = self.root / "swapped"
        self.publish("a", folder)
        request = json.dumps({"rows": self.rows})
        with self.serve("a.serving") as a, self.serve("b.serving") as b:
            valid = {a.ask("POST", "/v1/score", request)[1], b.ask("POST", "/v1/score", request)[1]}
        done = threading.Event()

        def ask_on(daemon):
            seen, connection = set(), daemon.connect()
            while not done.is_set():
                connection.request("POST", "/v1/score", request)
                response = connection.getresponse()
                seen.add(response.read().decode())
                assert response.status == 200
            connection.close()
            return seen

        with self.serve("swapped") as daemon, concurrent.futures.ThreadPoolExecutor(4) as pool:
            clients = [pool.submit(ask_on, daemon) for _ in range(4)]
            try:
                for i in range(12):
                    before = daemon.metric("millrace_serve_model_swaps_total")
                    self.publish("ba"[i % 2], folder)
                    for _ in range(500):
                        if daemon.metric("millrace_serve_model_swaps_total") > before:
                            break
                        time.sleep(0.01)
                    else:
                        self.fail("no swap")
            finally:
                done.set()
            self.assertEqual(set().union(*(client.result() for client in clients)), valid)

    def test_a_kill_during_a_swap_leaves_a_state_that_starts(self):
        folder = self.root / "killed"
        self.publish("a", folder)
        with self.serve("a.serving") as a, self.serve("b.serving") as b:
            valid = [a.scores({"rows": self.rows}), b.scores({"rows": self.rows})]
        draw = random.Random(1)
        for i in range(12):
            with self.serve("killed") as daemon:
                self.assertIn(daemon.scores({"rows": self.rows}), valid)
                self.publish("ba"[i % 2], folder)
                time.sleep(draw.random() * 0.04)
                daemon.process.send_signal(signal.SIGKILL)

    def test_sigterm_completes_requests_that_have_begun(self):
        request = json.dumps({"rows": self.rows[:2]}).encode()
        with self.serve("a.serving") as daemon:
            expected = daemon.scores({"rows": self.rows[:2]})
            with socket.create_connection(("127.0.0.1", daemon.port), 30) as peer:
                peer.sendall(f"POST /v1/score HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(request)}\r\n\r\n".encode() + request[:10])
                time.sleep(0.2)  # the server has read it
                daemon.process.terminate()
                daemon_stops = time.monotonic()
                while time.monotonic() < daemon_stops + 10:
                    try:
                        socket.create_connection(("127.0.0.1", daemon.port), 1).close()
                        time.sleep(0.02)
                    except OSError:
                        break
                else:
                    self.fail("it still accepts connections")
                peer.sendall(request[10:])
                reply = peer.makefile("rb").read().decode()
            self.assertIn("Connection: close", reply)
            self.assertEqual(json.loads(reply.split("\r\n\r\n")[1])["scores"], expected)
            self.assertEqual(daemon.process.wait(30), 0)

    def test_the_token_and_tls(self):
        token = self.root / "token"
        token.write_text("secret\n")
        token.chmod(0o600)
        body = json.dumps({"rows": self.rows[:1]})
        with self.serve("a.serving", f"--token_file={token}") as daemon:
            for path, method in (("/v1/score", "POST"), ("/metrics", "GET"), ("/v1/model", "GET")):
                for given in ({}, {"Authorization": "Bearer no"}, {"Authorization": "Bearer secret2"}, {"Authorization": "secret"}):
                    self.assertEqual(daemon.ask(method, path, body, given)[0], 401)
                self.assertEqual(daemon.ask(method, path, body if method == "POST" else None,
                                            {"Authorization": "Bearer secret"})[0], 200)
            self.assertEqual(daemon.ask("GET", "/healthz")[0], 200)
        self.check_tls(body)

    def check_tls(self, body):
        files = {name: self.root / f"{name}.pem" for name in ("key", "cert", "other_key", "other_cert")}
        for prefix in ("", "other_"):
            run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", files[prefix + "key"],
                "-out", files[prefix + "cert"])
        flags = (f"--tls_cert={files['cert']}", f"--tls_key={files['key']}", f"--tls_ca={files['cert']}")
        with self.serve("a.serving", *flags) as daemon:
            context = ssl.create_default_context(cafile=files["cert"])
            context.load_cert_chain(files["cert"], files["key"])
            for _ in range(2):
                connection = http.client.HTTPSConnection("127.0.0.1", daemon.port, timeout=30, context=context)
                for _ in range(3):
                    connection.request("POST", "/v1/score", body)
                    self.assertEqual(connection.getresponse().read()[:10], b'{"scores":')
                connection.close()
            for cert in (None, "other_"):
                client = ssl.create_default_context(cafile=files["cert"])
                if cert:
                    client.load_cert_chain(files["other_cert"], files["other_key"])
                connection = http.client.HTTPSConnection("127.0.0.1", daemon.port, timeout=30, context=client)
                with self.assertRaises(OSError):
                    connection.request("GET", "/healthz")
                    connection.getresponse()
                connection.close()
            self.assertEqual(daemon.raw(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")[:8].replace("HTTP/1.1", ""), "")
            self.assertEqual(daemon.stop(), 0)

    def test_wrong_flags_and_models_are_errors(self):
        def error(status, *flags):
            done = subprocess.run([BIN / "millrace-serve", *map(str, flags)], capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, status, done.stderr)
            return done.stderr

        self.assertIn("no model: write --model=RUN_DIR", error(2))
        self.assertIn("there is no such file or folder", error(1, f"--model={self.root}/none"))
        self.assertIn("without a token anyone may ask", error(2, f"--model={self.root}/a", "--listen=0.0.0.0"))
        self.assertIn("--insecure_no_token has no effect on the loopback", error(2, f"--model={self.root}/a", "--insecure_no_token"))
        self.assertIn("expected an IP address", error(2, f"--model={self.root}/a", "--listen=nowhere", "--insecure_no_token"))
        self.assertIn("--max_body_mb=0: expected more than 0", error(2, f"--model={self.root}/a", "--max_body_mb=0"))
        self.assertIn("expected", error(1, f"--model={self.root}/a.csv"))
        with self.serve("a.serving") as daemon:
            self.assertIn(f"cannot listen on 127.0.0.1:{daemon.port}: Address already in use",
                          error(1, f"--model={self.root}/a", f"--port={daemon.port}"))
        (self.root / "empty").mkdir()
        self.assertIn("expected a run folder with a model, or a folder with *.serving files", error(1, f"--model={self.root}/empty"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
