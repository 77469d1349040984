# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, driven by chromedriver over the WebDriver protocol, with only the standard library."""
import base64
import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request

MISSING = "chromium and chromedriver (Debian: chromium, chromium-driver) are not installed"


def available():
    return bool(shutil.which("chromium") and shutil.which("chromedriver"))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Browser:
    """Use as a context manager."""

    def __init__(self, width=1400, height=1000, dark=False):
        self.port = free_port()
        self.driver = subprocess.Popen(
            ["chromedriver", f"--port={self.port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        args = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                f"--window-size={width},{height}", "--force-device-scale-factor=1"]
        if dark:
            args.append("--force-dark-mode")
        options = {"binary": shutil.which("chromium"), "args": args}
        self.session = None
        self.session = self._wait_for_session({
            "capabilities": {"alwaysMatch": {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}}
        })

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self._call("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait(timeout=20)

    def _request(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as response:
                return json.load(response)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{method} {path}: {error.read().decode(errors='replace')[:2000]}") from error

    def _wait_for_session(self, body):
        for attempt in range(100):
            try:
                return self._request("POST", "/session", body)["sessionId"]
            except urllib.error.URLError:
                if attempt == 99 or self.driver.poll() is not None:
                    raise
                time.sleep(0.1)
        return None

    def _call(self, method, path, body=None):
        return self._request(method, f"/session/{self.session}{path}", body)

    def open(self, url):
        self._call("POST", "/url", {"url": url})

    def run(self, script, *args):
        """The value of a script's return statement."""
        return self._call("POST", "/execute/sync", {"script": script, "args": list(args)})

    def run_async(self, script, *args):
        """The value that the script passes to its last argument."""
        return self._call("POST", "/execute/async", {"script": script, "args": list(args)})

    def wait_for(self, script, seconds=60):
        end = time.monotonic() + seconds
        while True:
            value = self.run("return " + script)
            if value:
                return value
            if time.monotonic() > end:
                raise AssertionError(f"timed out after {seconds} s waiting for {script}; log: {self.log()}")
            time.sleep(0.1)

    def resize(self, width, height):
        """Also to widths that a window cannot have."""
        self._call("POST", "/goog/cdp/execute", {"cmd": "Emulation.setDeviceMetricsOverride", "params": {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}})

    def screenshot(self, path, whole_page=False):
        if whole_page:
            height = self.run("return document.documentElement.scrollHeight")
            width = self.run("return innerWidth")
            self._call("POST", "/goog/cdp/execute", {"cmd": "Emulation.setDeviceMetricsOverride", "params": {
                "width": width, "height": min(height, 12000), "deviceScaleFactor": 1, "mobile": False}})
            time.sleep(0.5)
        with open(path, "wb") as file:
            file.write(base64.b64decode(self._call("GET", "/screenshot")))
        if whole_page:
            self._call("POST", "/goog/cdp/execute", {"cmd": "Emulation.clearDeviceMetricsOverride", "params": {}})

    def pointer(self, *actions):
        self._call("POST", "/actions", {"actions": [
            {"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": list(actions)}]})

    def click(self, x, y):
        self.pointer({"type": "pointerMove", "duration": 0, "x": int(x), "y": int(y)},
                     {"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0})

    def drag(self, x, y, dx, dy):
        self.pointer({"type": "pointerMove", "duration": 0, "x": int(x), "y": int(y)},
                     {"type": "pointerDown", "button": 0},
                     {"type": "pointerMove", "duration": 100, "x": int(x + dx), "y": int(y + dy)},
                     {"type": "pointerUp", "button": 0})

    def wheel(self, x, y, delta):
        self._call("POST", "/actions", {"actions": [{"type": "wheel", "id": "wheel", "actions": [
            {"type": "scroll", "x": int(x), "y": int(y), "deltaX": 0, "deltaY": int(delta), "duration": 0, "origin": "viewport"}]}]})

    def log(self):
        return [entry for entry in self._call("POST", "/se/log", {"type": "browser"}) if entry["level"] == "SEVERE"]
