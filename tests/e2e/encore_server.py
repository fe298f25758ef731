"""A running `encore serve` for the tests of this folder. Standard library only.

Environment:
  ENCORE_BINARY       the program under test; CTest sets it
  ENCORE_TEST_MODELS  a folder that holds SmolLM2-135M-Instruct.Q4_1.gguf
"""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

MODEL_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
MODEL_NAME = "smollm2"
GOLDENS = pathlib.Path(__file__).resolve().parents[1] / "goldens"
START_SECONDS = 120  # generous: the machine may be busy with other tests
SKIPPED = 77  # the exit status that CTest counts as skipped


def binary():
    path = os.environ.get("ENCORE_BINARY", "")
    if not os.path.exists(path):
        sys.exit(f"ENCORE_BINARY is {path!r}, which is no program; CTest sets it")
    return path


def model_path():
    """The model's file. Ends the test as skipped where it is not there."""
    path = os.path.join(os.environ.get("ENCORE_TEST_MODELS", ""), MODEL_FILE)
    if not os.path.exists(path):
        print(f"skipped: ENCORE_TEST_MODELS names no folder with {MODEL_FILE}")
        sys.exit(SKIPPED)
    return path


def golden(name):
    """A case of tests/goldens/smollm2.json: what transformers computes."""
    cases = json.loads((GOLDENS / "smollm2.json").read_text(encoding="utf-8"))["cases"]
    return next(case for case in cases if case["name"] == name)


class Metrics:
    """One reading of /metrics. Counters start at 0 even before they are first shown."""

    def __init__(self, text):
        self.series = re.findall(r"^encore:(\w+)(?:\{(.*)\})? (\S+)$", text, re.MULTILINE)

    def __call__(self, name, label=""):
        """The sum over the series of that name whose labels contain `label`."""
        return sum(float(value) for found, labels, value in self.series
                   if found == name and label in labels)


class Server:
    """`encore serve` on a free port. Use it in a `with` statement: leaving it ends the server by
    SIGTERM and checks that it ends with status 0.

    Keyword arguments override sections of the configuration: Server(server={"max_queue": 1}).
    """

    def __init__(self, **sections):
        config = {
            "model": {"path": model_path()},
            "backend": {"name": "cpu", "options": {"threads": "auto"}},
            "kv_cache": {"page_size": 16, "max_tokens": 8192},
            "scheduler": {"max_running_requests": 8, "max_tokens_per_step": 512,
                          "max_context": 2048},
            "capture": {"prefill": "full", "decode": True},
            "sampling": {"temperature": 0.0},
            "server": {"host": "127.0.0.1", "port": 0, "model_name": MODEL_NAME,
                       "drain_timeout_s": 5},
        }
        for section, keys in sections.items():
            config.setdefault(section, {}).update(keys)
        self.folder = tempfile.TemporaryDirectory(prefix="encore-e2e-")
        self.config = os.path.join(self.folder.name, "config.yaml")
        self.log = os.path.join(self.folder.name, "log")
        with open(self.config, "w", encoding="utf-8") as file:
            json.dump(config, file)  # which is YAML, too
        self.process = None
        self.port = None

    def launch(self):
        """Starts the process and waits for nothing."""
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([binary(), "serve", self.config],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        return self

    def wait_for_port(self):
        """Until the server says where it listens."""
        def announced():
            match = re.search(r"http://127\.0\.0\.1:([1-9]\d*)", self.output())
            self.port = int(match[1]) if match else None
            return self.port is not None
        self.wait(announced, "the server says where it listens")
        return self

    def wait_until_ready(self):
        def ready():
            try:
                return self.get("/ready")[0] == 200
            except OSError:
                return False
        self.wait(ready, "/ready answers 200")
        return self

    def __enter__(self):
        try:
            return self.launch().wait_for_port().wait_until_ready()
        except BaseException:
            self.kill()
            self.folder.cleanup()
            raise

    def __exit__(self, kind, value, trace):
        if kind is not None and os.environ.get("ENCORE_E2E_SHOW_LOG"):
            print(self.output(), file=sys.stderr)
        status = self.stop()
        if kind is None and status != 0:
            raise AssertionError(f"the server ended with status {status}:\n{self.output()}")
        self.folder.cleanup()

    def stop(self, seconds=60):
        """SIGTERM; the exit status. A server that does not end is killed: status -9."""
        self.process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        return self.kill()

    def kill(self):
        self.process.kill()
        return self.process.wait()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def output(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read()

    def wait(self, condition, what, seconds=START_SECONDS):
        """Until condition() holds. The server must live meanwhile."""
        end = time.monotonic() + seconds
        while not condition():
            if self.process.poll() is not None:
                raise AssertionError(f"the server ended with status {self.process.returncode} "
                                     f"before {what}:\n{self.output()}")
            if time.monotonic() > end:
                raise AssertionError(f"not within {seconds} s: {what}\n{self.output()[-4000:]}")
            time.sleep(0.02)

    def get(self, path, headers=None):
        """(status, body) of GET."""
        return self.request("GET", path, None, headers)

    def post(self, path, body, headers=None):
        """(status, body) of POST; `body` is bytes, or what JSON can say."""
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
        return self.request("POST", path, body, headers)

    def request(self, method, path, body, headers):
        request = urllib.request.Request(self.url + path, data=body, method=method, headers={
            "Content-Type": "application/json", **(headers or {})})
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def metrics(self):
        status, text = self.get("/metrics")
        assert status == 200, (status, text)
        return Metrics(text)

    def wait_until_idle(self, seconds=30):
        """Until no request runs or waits and no page of the KV cache is held."""
        def idle():
            now = self.metrics()
            return not any(now(name) for name in (
                "num_requests_running", "num_requests_waiting", "kv_cache_usage_perc"))
        self.wait(idle, "no request runs or waits and the KV cache is unused", seconds)

    def resident_bytes(self):
        with open(f"/proc/{self.process.pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
