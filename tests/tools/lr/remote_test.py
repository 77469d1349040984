#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training, prediction and inspection straight from s3:// and http://, through faults: the same bytes as from local
files. The S3 server is s3rver (npm install -g s3rver); without it that part is skipped.

Usage: remote_test.py BIN_DIR
"""
import datetime
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
import fault_proxy  # noqa: E402

FAULTS = ["503", "429", "reset", "cut", "slow"]
SECRET = "S3RVER"
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
KEYS = {"AWS_ACCESS_KEY_ID": "S3RVER", "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_SESSION_TOKEN": "a token/+="}


class Test:
    def __init__(self, bin_dir, folder):
        self.bin_dir, self.folder, self.errors = bin_dir, folder, 0
        self.env = {**CLEAN, "HOME": str(folder)}

    def words(self, program, *args):
        return [str(self.bin_dir / program), *args]

    def run(self, program, *args, status=0, env=None):
        done = subprocess.run(self.words(program, *args), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=120, check=False, env={**self.env, **(env or {})})
        if done.returncode != status:
            self.fail(f"{program} {' '.join(args)}: status {done.returncode}, expected {status}: {done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def lr(self, *flags, **more):
        return self.run("millrace-lr", *COMMON, *flags, **more)

    def fail(self, message):
        print(message)
        self.errors += 1

    def expect(self, holds, message):
        if not holds:
            self.fail(message)

    def expect_same(self, a, b):
        self.expect(a.read_bytes() == b.read_bytes(), f"{a} and {b} differ")


COMMON = ["--num_features=100000", "--seed=5", "--epochs=2", "--learning_rate=0.1", "--eval_every=20000", "--threads=2"]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class S3Server:
    def __init__(self, program, folder):
        self.port = free_port()
        env = {**CLEAN, "NODE_OPTIONS": "--openssl-legacy-provider"}  # it encrypts the continuation token with RC4
        self.process = subprocess.Popen(
            [program, "-d", str(folder), "-p", str(self.port), "-a", "127.0.0.1", "-s", "--configure-bucket", "test"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except OSError:
                time.sleep(0.05)
        raise RuntimeError("s3rver does not start")

    def put(self, keys):
        """keys: {key: bytes}."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        scope = f"S3RVER/{now[:8]}/us-east-1/s3/aws4_request"
        headers = {"x-amz-date": now, "x-amz-content-sha256": "UNSIGNED-PAYLOAD",
                   "Authorization": f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host;x-amz-date, "
                                    f"Signature={'0' * 64}"}  # s3rver does not check it; the proxy does
        for key, body in keys.items():
            connection.request("PUT", f"/test/{fault_proxy.urllib.parse.quote(key)}", body, headers)
            reply = connection.getresponse()
            text = reply.read()
            if reply.status != 200:
                raise RuntimeError(f"PUT {key}: {reply.status} {text}")

    def stop(self):
        self.process.terminate()
        self.process.wait()


def lines(path):
    return len(path.read_text().splitlines()) if path.exists() else 0


def kill(test, flags, run_dir):
    """Kills a run after the second evaluation: there are checkpoints before it."""
    words = test.words("millrace-lr", *COMMON, *flags, f"--run_dir={run_dir}", "--checkpoint_every=10000")
    run = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                           env={**test.env, **KEYS})
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and run.poll() is None and lines(run_dir / "metrics.csv") < 3:
        time.sleep(0.005)
    run.send_signal(signal.SIGKILL)
    test.expect(run.wait() == -signal.SIGKILL, "the run was over before it could be killed")


def resume(test, flags, run_dir, status=0):
    return test.lr(*flags, f"--run_dir={run_dir}", "--checkpoint_every=10000", "--resume", env=KEYS, status=status)


def test_s3(test, program):
    local, objects = test.folder / "data", test.folder / "objects"
    server = S3Server(program, objects)
    try:
        server.put({f"data/{path.name}": path.read_bytes() for path in local.glob("*.tfrecord")})
        with fault_proxy.s3_proxy(server.port, SECRET, faults=FAULTS, every=4) as proxy:
            endpoint = f"--s3_endpoint={proxy.url}"
            remote = ["--train=s3://test/data/{train}-*", "--test=s3://test/data/test-*[0-9]-of-*", endpoint]
            test.lr(*remote, f"--run_dir={test.folder / 's3'}", env=KEYS)
            test.expect_same(test.folder / "s3/model/model.bin", test.folder / "local/model/model.bin")
            kill(test, remote, test.folder / "killed")
            found = resume(test, remote, test.folder / "killed")
            test.expect("resumed   from the checkpoint" in found, f"not resumed: {found}")
            test.expect_same(test.folder / "killed/model/model.bin", test.folder / "local/model/model.bin")
            run_json = (test.folder / "s3/run.json").read_text()
            test.expect(SECRET not in run_json.replace("S3RVER_", ""), "run.json has the secret")
            scores = test.folder / "scores"
            test.run("millrace-predict", f"--model={test.folder / 's3'}", f"--out={scores}", "s3://test/data/test-*",
                     endpoint, env=KEYS)
            test.expect(scores.read_bytes() == (test.folder / "local-scores").read_bytes(), "other scores")
            stat = test.run("millrace-records", "stat", "--json", "s3://test/data/train-*", endpoint, env=KEYS)
            test.expect(json.loads(stat[stat.index("{"):])["records"] == ROWS, f"stat: {stat}")
            test.expect(len(proxy.injected) >= 10, f"only {len(proxy.injected)} faults: {proxy.injected}")
            test.expect(not proxy.problems, f"signatures: {proxy.problems[:3]}")
            # A changed object is another version of the data.
            kill(test, remote, test.folder / "changed")
            server.put({"data/train-00000-of-00004.tfrecord": (local / "train-00001-of-00004.tfrecord").read_bytes()})
            found = resume(test, remote, test.folder / "changed", status=2)
            test.expect("the training files are not those of the checkpoint" in found, f"changed object: {found}")
            found = test.lr("--train=s3://test/none", "--eval_every=0", endpoint, status=1, env=KEYS)
            test.expect("s3://test/none: no such file (HTTP 404" in found, found)
        test_list(test, server)
    finally:
        server.stop()


def test_list(test, server):
    count = 1203
    server.put({f"many/a&b <{i:04}> +%.libsvm": b"1 3:1\n" for i in range(count)})
    with fault_proxy.s3_proxy(server.port, SECRET) as proxy:
        scores = test.folder / "many"
        test.run("millrace-predict", f"--model={test.folder / 'local'}", f"--out={scores}", "--format=libsvm",
                 "s3://test/many/a&b*", f"--s3_endpoint={proxy.url}", env=KEYS)
        test.expect(sum("list-type=2" in path for path in proxy.requests) == 2, "expected two pages")
        test.expect(len(scores.read_text().splitlines()) == count, "expected one row of each object")


def test_http(test):
    local = test.folder / "data"
    names = sorted(path.name for path in local.glob("train-*"))
    for ranges, etag in ((True, True), (False, False)):
        faults = FAULTS if ranges else ["503", "slow"]
        with fault_proxy.file_server(local, ranges=ranges, etag=etag, faults=faults, every=4) as server:
            run = test.folder / f"http-{ranges}"
            files = ",".join(f"{server.url}/{name}?X-Signature=hidden{i}" for i, name in enumerate(names))
            found = test.lr(f"--train={files}", f"--test={server.url}/test-00000-of-00001.tfrecord", f"--run_dir={run}")
            test.expect_same(run / "model/model.bin", test.folder / "local/model/model.bin")
            written = found + "".join(p.read_text(errors="replace") for p in run.rglob("*") if p.is_file())
            test.expect("hidden" not in written, "the query of a URL was written")
            test.expect(server.injected, "no faults")


def test_errors(test):
    cases = [
        (["--run_dir=s3://b/run", "--train=x"], "--run_dir=s3://b/run: expected a local folder"),
        (["--train=s3://bucket"], "expected s3://BUCKET/KEY, found no key"),
        (["--train=http://user:pw@host/x"], "expected a URL without user name and password"),
        (["--train=http://host/x*"], "a web server has no list of its files"),
        (["--train=s3://b/k", "--s3_endpoint=ftp://x"], "--s3_endpoint: expected http://HOST"),
        (["--train=/dev/null", "--s3_region=x"], "--s3_region has no effect"),
    ]
    for flags, expected in cases:
        found = test.lr(*flags, "--eval_every=0", status=2)
        test.expect(expected in found, f"{flags}: expected '{expected}', found {found}")
        test.expect("pw@" not in found, f"a password is shown: {found}")
    found = test.lr("--train=s3://b/k", "--eval_every=0", f"--s3_endpoint=http://127.0.0.1:{free_port()}", status=1)
    test.expect("s3://b/k: " in found and "(attempt 3 of 3)" in found, found)


ROWS = 60000


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        test = Test(pathlib.Path(sys.argv[1]), folder)
        test.run("millrace-records", "synth", f"--out={folder / 'data'}", f"--rows={ROWS}", "--test_rows=5000",
                 "--num_features=100000", "--shards=4")
        test.lr(f"--train={folder}/data/train-*", f"--test={folder}/data/test-*", f"--run_dir={folder / 'local'}")
        test.run("millrace-predict", f"--model={folder / 'local'}", f"--out={folder / 'local-scores'}",
                 f"{folder}/data/test-*")
        test_errors(test)
        test_http(test)
        s3rver = shutil.which("s3rver")
        if s3rver:
            test_s3(test, s3rver)
        else:
            print("skipped s3://: there is no s3rver (npm install -g s3rver)")
        print(f"{test.errors} errors")
        return 1 if test.errors else 0


if __name__ == "__main__":
    sys.exit(main())
