"""Opens a page in headless Chromium and says, as JSON on stdout, what it shows after some seconds.

usage: browser.py URL WIDTH SECONDS

Speaks the DevTools protocol over a pipe, so that nothing but Chromium is needed. Gives the text of the page, its HTML, the
number of updates that arrived, how many pixels it is wider than the window, and everything it complained of.
"""

import json
import os
import subprocess
import sys
import tempfile
import time


class Browser:
    def __init__(self, profile):
        to_browser, self.commands = os.pipe()
        self.answers, from_browser = os.pipe()

        def hand_over():
            # Chromium reads commands from 3 and writes answers to 4; both ends are moved out of each other's way first.
            read, write = os.dup(to_browser), os.dup(from_browser)
            os.dup2(read, 3)
            os.dup2(write, 4)

        self.process = subprocess.Popen(
            ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank"],
            preexec_fn=hand_over, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.number = 0
        self.buffer = b""
        self.complaints = []

    def message(self):
        while b"\0" not in self.buffer:
            data = os.read(self.answers, 1 << 20)
            if not data:
                raise RuntimeError("chromium ended")
            self.buffer += data
        text, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(text)
        if message.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded"):
            self.complaints.append(message["params"])
        if message.get("method") == "Runtime.consoleAPICalled" and message["params"]["type"] in ("error", "warning"):
            self.complaints.append(message["params"])
        return message

    def call(self, method, session=None, **params):
        self.number += 1
        command = {"id": self.number, "method": method, "params": params}
        if session:
            command["sessionId"] = session
        os.write(self.commands, json.dumps(command).encode() + b"\0")
        while True:
            message = self.message()
            if message.get("id") == self.number:
                return message["result"]


def main():
    url, width, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(profile)
        try:
            target = browser.call("Target.createTarget", url="about:blank")["targetId"]
            session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ["Runtime", "Log", "Page"]:
                browser.call(f"{domain}.enable", session)
            browser.call("Emulation.setDeviceMetricsOverride", session, width=width, height=900, deviceScaleFactor=1,
                         mobile=width < 600)
            browser.call("Page.navigate", session, url=url)
            time.sleep(seconds)
            look = """JSON.stringify({text: document.body.innerText, html: document.documentElement.outerHTML,
                updates: Number(document.getElementById("link")?.dataset.updates ?? 0),
                wider_px: document.documentElement.scrollWidth - document.documentElement.clientWidth})"""
            seen = json.loads(browser.call("Runtime.evaluate", session, expression=look)["result"]["value"])
            if len(sys.argv) > 4:
                import base64
                picture = browser.call("Page.captureScreenshot", session, captureBeyondViewport=True)["data"]
                with open(sys.argv[4], "wb") as file:
                    file.write(base64.b64decode(picture))
            print(json.dumps({**seen, "complaints": browser.complaints}))
        finally:
            browser.process.kill()
            browser.process.wait()


main()
