"""Opens a page in headless Chromium and says, as JSON on stdout, what it shows once a condition holds.

usage: browser.py URL WIDTH CONDITION [--do SCRIPT CONDITION].. [--dark] [--axe] [--picture FILE.png] [--print FILE.pdf]

A condition is an expression in the page; one that does not come to hold within a minute is waited for no longer. --do runs a
script in the page and waits for another one before the next one, or before looking. --axe names what keeps people from using
the page. Speaks the DevTools protocol over a pipe, so that nothing but
Chromium is needed. Gives the address and the text of the page, its HTML, the number of updates that arrived, how many pixels
it is wider than the window, and everything it complained of.
"""

import argparse
import base64
import importlib.util
import json
import os
import subprocess
import tempfile
import time

WAIT_S = 60
# What a page loads in vain it complains of a little later.
SETTLE_S = 0.5


class Refused(Exception):
    """The browser does not do what it was told to."""


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
                if "error" in message:
                    raise Refused(f"{method}: {message['error']}")
                return message["result"]

    def wait_for(self, condition, session):
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end:
            try:
                answer = self.call("Runtime.evaluate", session, expression=f"Boolean({condition})")
                if answer["result"].get("value") is True:
                    break
            except Refused:
                # Between two pages there is nothing to ask.
                pass
            time.sleep(0.1)
        time.sleep(SETTLE_S)

    def axe(self, session):
        [folder] = importlib.util.find_spec("axe_playwright_python").submodule_search_locations
        with open(os.path.join(folder, "axe.min.js"), encoding="utf-8") as file:
            self.call("Runtime.evaluate", session, expression=file.read())
        told = self.call("Runtime.evaluate", session, awaitPromise=True, expression=AXE)
        return json.loads(told["result"]["value"])


AXE = """axe.run().then((found) => JSON.stringify(found.violations.map((one) => `${one.id}: ${one.help}: `
    + one.nodes.map((node) => `${node.target} ${node.failureSummary}`).join("; "))))"""
LOOK = """JSON.stringify({url: location.href, text: document.body.innerText, html: document.documentElement.outerHTML,
    updates: Number(document.getElementById("link")?.dataset.updates ?? 0),
    wider_px: document.documentElement.scrollWidth - document.documentElement.clientWidth})"""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("width", type=int)
    parser.add_argument("condition")
    parser.add_argument("--do", nargs=2, action="append", default=[])
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--axe", action="store_true")
    parser.add_argument("--picture")
    parser.add_argument("--print", dest="paper")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(profile)
        try:
            target = browser.call("Target.createTarget", url="about:blank")["targetId"]
            session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ["Runtime", "Log", "Page"]:
                browser.call(f"{domain}.enable", session)
            browser.call("Emulation.setDeviceMetricsOverride", session, width=wanted.width, height=900,
                         deviceScaleFactor=1, mobile=wanted.width < 600)
            scheme = {"name": "prefers-color-scheme", "value": "dark" if wanted.dark else "light"}
            browser.call("Emulation.setEmulatedMedia", session, features=[scheme])
            browser.call("Page.navigate", session, url=wanted.url)
            browser.wait_for(wanted.condition, session)
            for script, then in wanted.do:
                done = browser.call("Runtime.evaluate", session, expression=script)
                if "exceptionDetails" in done:
                    raise RuntimeError(f"--do: {done['exceptionDetails']}")
                browser.wait_for(then, session)
            seen = json.loads(browser.call("Runtime.evaluate", session, expression=LOOK)["result"]["value"])
            if wanted.axe:
                seen["axe"] = browser.axe(session)
            if wanted.picture:
                picture = browser.call("Page.captureScreenshot", session, captureBeyondViewport=True)["data"]
                with open(wanted.picture, "wb") as file:
                    file.write(base64.b64decode(picture))
            if wanted.paper:
                paper = browser.call("Page.printToPDF", session, printBackground=True, preferCSSPageSize=True)["data"]
                with open(wanted.paper, "wb") as file:
                    file.write(base64.b64decode(paper))
            print(json.dumps({**seen, "complaints": browser.complaints}))
        finally:
            browser.process.kill()
            browser.process.wait()


main()
