# SPDX-License-Identifier: Apache-2.0
"""Jobs of several real processes, with obstacles: a slow network, a slow server, a slow worker."""
import os
import re
import socket
import subprocess
import threading
import time


class Relay(threading.Thread):
    """Passes TCP connections on to `target`, at most `bytes_per_s` in each direction, all connections together."""

    PIECE = 16384

    def __init__(self, target, bytes_per_s):
        super().__init__(daemon=True)
        self.target, self.rate = target, bytes_per_s
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.directions = [threading.Lock(), threading.Lock()]

    def run(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            host, port = self.target.rsplit(":", 1)
            server = socket.create_connection((host, int(port)))
            for direction, (source, sink) in enumerate(((client, server), (server, client))):
                sink.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self.pump, args=(direction, source, sink), daemon=True).start()

    def pump(self, direction, source, sink):
        try:
            while piece := source.recv(self.PIECE):
                with self.directions[direction]:
                    time.sleep(len(piece) / self.rate)
                sink.sendall(piece)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def close(self):
        self.listener.close()


class Job:
    """A server and some workers, started one by one so that each can have an obstacle."""

    def __init__(self, binaries, run_dir, mode, workers, flags):
        self.binaries, self.run_dir, self.mode, self.workers, self.flags = binaries, run_dir, mode, workers, flags

    def run(self, network_bytes_per_s=None, preload=None):
        """`preload`: a library for "worker-1", "ps-0". Waits for the end; an exit status other than 0 is an error."""
        preload = preload or {}
        server = subprocess.Popen(
            [f"{self.binaries}/millrace-ps", f"--num_workers={self.workers}", f"--run_dir={self.run_dir}", "--profile"],
            stdout=subprocess.PIPE, text=True, env=self.environment(preload.get("ps-0")))
        processes, relay = [server], None
        try:
            address = re.search(r"listening on (\S+)", server.stdout.readline()).group(1)
            if network_bytes_per_s:
                relay = Relay(address, network_bytes_per_s)
                relay.start()
                address = relay.address
            for worker in range(self.workers):
                processes.append(self.start_worker(worker, address, preload.get(f"worker-{worker}")))
            for process in processes[1:]:
                if process.wait(timeout=120) != 0:
                    raise AssertionError(f"{process.args} failed")
            server.stdout.read()
            if server.wait(timeout=30) != 0:
                raise AssertionError("the server failed")
        finally:
            if relay:
                relay.close()
            for process in processes:
                if process.poll() is None:
                    process.kill()
                    process.wait()
            server.stdout.close()

    @staticmethod
    def environment(preload):
        return dict(os.environ, **({"LD_PRELOAD": str(preload)} if preload else {}))

    def start_worker(self, worker, address, preload):
        hosts = ",".join(["localhost"] * self.workers)
        return subprocess.Popen(
            [f"{self.binaries}/millrace-lr", f"--mode={self.mode}", "--job_name=worker", f"--task_index={worker}",
             f"--ps_hosts={address}", f"--worker_hosts={hosts}", f"--run_dir={self.run_dir}", "--profile",
             "--model_out=/dev/null", *self.flags],
            stdout=subprocess.DEVNULL, env=self.environment(preload))
