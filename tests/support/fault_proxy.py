#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A web server and a proxy on loopback that answer with faults, for tests of remote files.

FileServer serves a folder: with or without ranges, with faults. Proxy passes requests on to a real S3 server, checks
that they are signed right (AWS signature 4), and adds faults. Faults are a list of names; a seeded choice takes one of
them for about one request in `every`:

    503    an error page instead of the answer
    429    the same, with Retry-After
    reset  the connection is reset after some of the body
    cut    the connection is closed after some of the body
    slow   the body comes in small pieces
"""
import hashlib
import hmac
import http.client
import http.server
import os
import pathlib
import random
import re
import socket
import struct
import threading
import time
import urllib.parse


def signing_key(secret, day, region):
    key = ("AWS4" + secret).encode()
    for part in (day, region, "s3", "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key


def signature_problem(handler, secret):
    """What is wrong with the AWS signature of the request, or None."""
    match = re.fullmatch(r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d+)/([^/]+)/s3/aws4_request, ?"
                         r"SignedHeaders=([^,]+), ?Signature=([0-9a-f]+)", handler.headers.get("Authorization", ""))
    if not match:
        return "no signature"
    _, day, region, names, found = match.groups()
    path, _, query = handler.path.partition("?")
    if "host" not in names.split(";") or "x-amz-date" not in names.split(";"):
        return "host and date are not signed"
    headers = "".join(f"{name}:{' '.join(handler.headers.get(name, '').split())}\n" for name in names.split(";"))
    content = handler.headers.get("x-amz-content-sha256", "")
    canonical = "\n".join([handler.command, path, "&".join(sorted(query.split("&"))), headers, names, content])
    text = "\n".join(["AWS4-HMAC-SHA256", handler.headers["x-amz-date"], f"{day}/{region}/s3/aws4_request",
                      hashlib.sha256(canonical.encode()).hexdigest()])
    expected = hmac.new(signing_key(secret, day, region), text.encode(), hashlib.sha256).hexdigest()
    return None if hmac.compare_digest(expected, found) else "wrong signature"


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, handler, faults=(), every=3, seed=1):
        super().__init__(("127.0.0.1", 0), handler)
        self.faults, self.every = list(faults), every
        self.random, self.lock = random.Random(seed), threading.Lock()
        self.requests, self.injected, self.problems = [], [], []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request, client_address):  # connections that the client or a fault ended
        pass

    def next_fault(self, path):
        with self.lock:
            self.requests.append(path)
            if not self.faults or self.random.randrange(self.every) != 0:
                return None
            self.injected.append(self.random.choice(self.faults))
            return self.injected[-1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, headers, body):
        fault = self.server.next_fault(self.path)
        if fault in ("503", "429"):
            status, body = int(fault), b"<Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>"
            headers = {"Retry-After": "0"} if fault == "429" else {}
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if fault in ("cut", "reset"):
            self.wfile.write(body[:len(body) // 2])
            self.wfile.flush()
            if fault == "reset":
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
            self.connection.close()
        elif fault == "slow":
            for i in range(0, len(body), 64 << 10):
                self.wfile.write(body[i:i + (64 << 10)])
                time.sleep(0.001)
        else:
            self.wfile.write(body)


def file_server(folder, *, ranges=True, etag=True, **faults):
    class Files(Handler):
        def do_GET(self):
            path = pathlib.Path(folder) / urllib.parse.unquote(self.path.partition("?")[0]).lstrip("/")
            if not path.is_file():
                self.answer(404, {}, b"not here")
                return
            body = path.read_bytes()
            status, headers = 200, {"Last-Modified": self.date_time_string(os.stat(path).st_mtime)}
            if etag:
                headers["ETag"] = f'"{hashlib.md5(body).hexdigest()}"'
            wanted = self.headers.get("If-Match")
            match = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
            if wanted and wanted != headers.get("ETag"):
                status, body = 412, b""
            elif ranges and match:
                begin, end = int(match[1]), min(int(match[2]) + 1, len(body))
                status, total = (206, len(body)) if begin < len(body) else (416, len(body))
                headers["Content-Range"] = f"bytes {begin}-{end - 1}/{total}" if status == 206 else f"bytes */{total}"
                body = body[begin:end] if status == 206 else b""
            self.answer(status, headers, body)
    return Server(Files, **faults)


def s3_proxy(port, secret, **faults):
    """Passes requests on to the S3 server on `port`. Its field `problems` lists requests with a wrong signature."""
    class Proxy(Handler):
        def do_GET(self):
            problem = signature_problem(self, secret)
            if problem:
                self.server.problems.append(f"{self.path}: {problem}")
            server = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            # s3rver does not know this parameter's effect, and does not say so in its answer.
            server.request("GET", self.path, headers=dict(self.headers.items()))
            reply = server.getresponse()
            headers = {name: value for name, value in reply.getheaders()
                       if name.lower() in ("etag", "last-modified", "content-range", "content-type")}
            self.answer(reply.status, headers, reply.read())
            server.close()
    return Server(Proxy, **faults)
