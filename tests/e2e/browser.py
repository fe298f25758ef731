"""A headless Chromium, driven over its DevTools protocol."""

import base64
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

import encore_server

try:
    from websockets.sync.client import connect
except ImportError:
    print(f"skipped: {sys.executable} has no package websockets; see tools/requirements-e2e.txt")
    sys.exit(encore_server.SKIPPED)


def browser_path():
    """Ends the test as skipped where there is no browser."""
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        print("skipped: no chromium on PATH; Debian's package is chromium")
        sys.exit(encore_server.SKIPPED)
    return path


class Browser:
    """One page in a browser with a profile of its own. `errors` collects what the console says."""

    def __init__(self, width=1200, height=760):
        self.errors = []
        self.calls = 0
        self.resources = contextlib.ExitStack()
        self.profile = tempfile.TemporaryDirectory(prefix="encore-e2e-", ignore_cleanup_errors=True)
        command = [browser_path(), "--headless=new", "--disable-gpu", "--disable-dev-shm-usage",
                   "--no-first-run", "--remote-debugging-port=0",
                   f"--user-data-dir={self.profile.name}", "about:blank"]
        if os.getuid() == 0:
            command.append("--no-sandbox")  # whose sandbox does not work for root
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        try:
            self.socket = self.resources.enter_context(
                connect(self.page_address(), max_size=None))
            for domain in ("Runtime", "Log", "Page"):
                self.call(domain + ".enable")
            self.resize(width, height)
        except BaseException:
            self.close()
            raise

    def page_address(self, seconds=60):
        end = time.monotonic() + seconds
        port_file = os.path.join(self.profile.name, "DevToolsActivePort")
        while time.monotonic() < end:
            with contextlib.suppress(OSError, IndexError, ValueError):
                with open(port_file, encoding="ascii") as file:
                    port = int(file.readline())
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/json", timeout=10) as reply:
                    return next(target["webSocketDebuggerUrl"] for target in json.load(reply)
                                if target["type"] == "page")
            time.sleep(0.05)
        raise AssertionError(f"the browser offers no page within {seconds} s")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.resources.close()
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.profile.cleanup()

    def call(self, method, **parameters):
        """The result of a DevTools command. Events that come before it are looked through."""
        self.calls += 1
        self.socket.send(json.dumps({"id": self.calls, "method": method, "params": parameters}))
        while True:
            message = json.loads(self.socket.recv(timeout=60))
            self.note(message)
            if message.get("id") == self.calls:
                if "error" in message:
                    raise AssertionError(f"{method}: {message['error']}")
                return message["result"]

    def note(self, message):
        event = message.get("params", {})
        if message.get("method") == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(event["exceptionDetails"]))
        elif message.get("method") == "Runtime.consoleAPICalled" and event["type"] == "error":
            self.errors.append(json.dumps(event["args"]))
        elif message.get("method") == "Log.entryAdded" and event["entry"]["level"] == "error":
            self.errors.append(f"{event['entry']['text']} {event['entry'].get('url', '')}")

    def resize(self, width, height, dark=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")

    def run(self, script):
        """The value of a JavaScript expression."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        if "exceptionDetails" in result:
            raise AssertionError(f"{script}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait(self, script, seconds=60):
        """Until the expression is true; its value."""
        end = time.monotonic() + seconds
        while not (value := self.run(script)):
            if time.monotonic() > end:
                raise AssertionError(f"not within {seconds} s: {script}; the page says:\n"
                                     + self.run("document.body.innerText"))
            time.sleep(0.05)
        return value

    def type(self, selector, text):
        """Replaces what a field holds, as typing would."""
        self.run(f"document.querySelector({json.dumps(selector)}).focus(); "
                 f"document.querySelector({json.dumps(selector)}).select()")
        self.call("Input.insertText", text=text)

    def press_enter(self, shift=False):
        key = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r",
               "modifiers": 8 if shift else 0}
        self.call("Input.dispatchKeyEvent", type="keyDown", **key)
        self.call("Input.dispatchKeyEvent", type="keyUp", **key)

    def click(self, selector):
        """With the mouse, in the middle of what is to be seen."""
        x, y = self.run(f"(() => {{ const box = document.querySelector({json.dumps(selector)})"
                        ".getBoundingClientRect(); return [box.x + box.width / 2, "
                        "box.y + box.height / 2]; })()")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def screenshot(self, path):
        picture = self.call("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(picture))
