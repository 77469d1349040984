"""Jobs of several real processes, with obstacles: a slow network, a slow server, a slow worker."""
import os
import re
import signal
import socket
import subprocess
import threading
import time


class Relay(threading.Thread):
    """Passes TCP connections on to `target`, at most so many bytes a second in each direction of all together."""

    PIECE = 16384

    def __init__(self, target, bytes_per_s):
        super().__init__(daemon=True)
        self.target, self.rate = target, bytes_per_s
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.ways = [threading.Lock(), threading.Lock()]

    def run(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            host, port = self.target.rsplit(":", 1)
            server = socket.create_connection((host, int(port)))
            for way, (source, sink) in enumerate(((client, server), (server, client))):
                sink.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self.pump, args=(way, source, sink), daemon=True).start()

    def pump(self, way, source, sink):
        try:
            while piece := source.recv(self.PIECE):
                with self.ways[way]:
                    time.sleep(len(piece) / self.rate)
                sink.sendall(piece)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def close(self):
        self.listener.close()


class Slowed(threading.Thread):
    """Lets a process run for a part of the time only: a processor that is slower by 1 / part."""

    PERIOD_S = 0.004

    def __init__(self, pid, part):
        super().__init__(daemon=True)
        self.pid, self.part, self.over = pid, part, threading.Event()

    def run(self):
        while not self.over.is_set():
            os.kill(self.pid, signal.SIGSTOP)
            time.sleep(self.PERIOD_S * (1 - self.part))
            os.kill(self.pid, signal.SIGCONT)
            time.sleep(self.PERIOD_S * self.part)

    def stop(self):
        self.over.set()
        self.join()


class Job:
    """A server and some workers, started one by one so that each can get its obstacle."""

    def __init__(self, binaries, run_dir, mode, workers, flags):
        self.binaries, self.run_dir, self.mode, self.workers, self.flags = binaries, run_dir, mode, workers, flags

    def run(self, network_bytes_per_s=None, server_part=None, preload=None):
        """`preload`: {worker: library}. Waits for the end; an exit status other than 0 is an error."""
        server = subprocess.Popen(
            [f"{self.binaries}/millrace-ps", f"--num_workers={self.workers}", f"--run_dir={self.run_dir}", "--profile"],
            stdout=subprocess.PIPE, text=True)
        processes, relay, slowed = [server], None, None
        try:
            address = re.search(r"listening on (\S+)", server.stdout.readline()).group(1)
            if network_bytes_per_s:
                relay = Relay(address, network_bytes_per_s)
                relay.start()
                address = relay.address
            if server_part:
                slowed = Slowed(server.pid, server_part)
                slowed.start()
            for worker in range(self.workers):
                processes.append(self.start_worker(worker, address, (preload or {}).get(worker)))
            for process in processes[1:]:
                if process.wait(timeout=120) != 0:
                    raise AssertionError(f"{process.args} failed")
            if slowed:
                slowed.stop()
                slowed = None
            server.stdout.read()
            if server.wait(timeout=30) != 0:
                raise AssertionError("the server failed")
        finally:
            if slowed:
                slowed.stop()
            if relay:
                relay.close()
            for process in processes:
                if process.poll() is None:
                    process.kill()
                    process.wait()
            server.stdout.close()

    def start_worker(self, worker, address, preload):
        environment = dict(os.environ, **({"LD_PRELOAD": str(preload)} if preload else {}))
        hosts = ",".join(["localhost"] * self.workers)
        return subprocess.Popen(
            [f"{self.binaries}/millrace-lr", f"--mode={self.mode}", "--job_name=worker", f"--task_index={worker}",
             f"--ps_hosts={address}", f"--worker_hosts={hosts}", f"--run_dir={self.run_dir}", "--profile",
             "--model_out=/dev/null", *self.flags],
            stdout=subprocess.DEVNULL, env=environment)
