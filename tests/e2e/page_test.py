"""The page at / in headless Chromium, against a running server.

ENCORE_PAGE_SCREENSHOT=FILE keeps a picture of it, as docs/images/serve-page.png was made.
"""

import os
import unittest

from browser import Browser, browser_path
from encore_server import Server, model_path

QUESTION = "Name three primary colours and one thing of each colour."
REPLY = "The primary colours are:\n\nRed is the most"  # of tests/goldens/smollm2.json, "chat"
ENDLESS = "Tell me a very long story about a lighthouse."

LAST_TEXT = "[...document.querySelectorAll('.turn.assistant .text')].at(-1).textContent"
REPLY_ENDED = "document.querySelector('.turn.writing') === null"
READY = "$('state').textContent === 'ready' && model !== null"
# Remembers each length that the last reply's text has had, and the highest rate and most running
# requests that were shown.
WATCH = """
window.seen = {lengths: new Set(), rate: 0, running: 0};
new MutationObserver(() => {
  const text = [...document.querySelectorAll('.turn.assistant .text')].at(-1);
  if (text) seen.lengths.add(text.textContent.length);
  seen.rate = Math.max(seen.rate, parseFloat($('rate').textContent.replace(',', '')) || 0);
  seen.running = Math.max(seen.running, parseFloat($('running').textContent) || 0);
}).observe(document.body, {subtree: true, childList: true, characterData: true});
true
"""


def send(browser, text):
    browser.type("#message", text)
    browser.press_enter()


class PageTest(unittest.TestCase):
    def setUp(self):
        self.server = self.enterContext(Server())
        self.browser = self.enterContext(Browser())
        self.browser.open(self.server.url + "/")
        self.browser.wait(READY)

    def test_conversation(self):
        browser = self.browser
        self.assertIn("smollm2", browser.run("$('model').textContent"))
        self.assertIn("2,048", browser.run("$('model').textContent"))
        self.assertTrue(browser.run("$('send').disabled"))
        browser.run(WATCH)

        # A reply arrives bit by bit and is the reference's.
        browser.run("$('max-tokens').value = 120")
        send(browser, QUESTION)
        browser.wait(f"document.querySelector('.turn.assistant') && {REPLY_ENDED}")
        text = browser.run(LAST_TEXT)
        self.assertTrue(text.startswith(REPLY), text)
        self.assertGreater(browser.run("seen.lengths.size"), 5)
        facts = browser.run("document.querySelector('.facts').textContent")
        self.assertRegex(facts, r"^\d+ tokens · first after [\d.,]+ ms · [\d.,]+ tokens/s · ")
        self.assertEqual(browser.run("document.querySelector('#heard').textContent"),
                         "Reply length limit." if "120 tokens" in facts else "Reply complete.")

        # Numbers move.
        browser.wait("seen.rate > 0 && parseFloat($('graph-counts').textContent) > 0")
        self.assertRegex(browser.run("$('graph-counts').textContent"),
                         r"^[\d,]+ replays, [\d,]+ eager$")
        self.assertRegex(browser.run("$('host-step').textContent"), r"^[\d.,]+$")
        self.assertRegex(browser.run("$('first-token').textContent"), r"^[\d.,]+$")
        line = "document.querySelector('#spark .line').getAttribute('d')"
        browser.wait(f"{line}.includes('L')")  # a point a second
        self.assertRegex(browser.run(line), r"^M\d+,[\d.]+(L\d+,[\d.]+)+$")

        # Stop ends the request in the server.
        browser.run("$('max-tokens').value = 1800")
        send(browser, ENDLESS)
        browser.wait(f"{LAST_TEXT}.length > 20")
        self.assertEqual(self.server.metrics()("num_requests_running"), 1)
        browser.wait("$('running').textContent === '1' && "
                     "document.querySelector('#kv i').style.width !== '0%'")
        if path := os.environ.get("ENCORE_PAGE_SCREENSHOT"):
            browser.wait(f"{LAST_TEXT}.length > 500 && rates.length > 25")
            browser.screenshot(path)
        browser.click("#stop")
        browser.wait(REPLY_ENDED, seconds=5)
        self.server.wait_until_idle(seconds=5)
        browser.wait("$('running').textContent === '0'")
        self.assertIn("stopped", browser.run(
            "[...document.querySelectorAll('.facts')].at(-1).textContent"))
        self.assertEqual(browser.run("messages.length"), 4)

        # Regenerate replaces the last reply.
        browser.run("$('max-tokens').value = 8")
        browser.click(".again")
        browser.wait(f"{REPLY_ENDED} && messages.length === 4")
        self.assertEqual(browser.run("document.querySelectorAll('.turn').length"), 4)
        self.assertIn("8 tokens", browser.run(
            "[...document.querySelectorAll('.facts')].at(-1).textContent"))

        # Shift+Enter starts a line, and markup in a message is text.
        markup = "<img src=x onerror=alert(1)><b>bold</b>"
        browser.type("#message", markup)
        browser.press_enter(shift=True)
        self.assertEqual(browser.run("$('message').value"), markup + "\n")
        browser.press_enter()
        browser.wait(f"{REPLY_ENDED} && messages.length === 6")
        self.assertEqual(browser.run("[...document.querySelectorAll('.turn.user .text')].at(-1)"
                                     ".textContent"), markup)
        self.assertEqual(browser.run("$('turns').querySelectorAll('img, b').length"), 0)

        # A new conversation has nothing of the old one.
        browser.run("$('clear').click()")
        self.assertEqual(browser.run("$('turns').children.length + messages.length"), 0)
        self.assertEqual(browser.errors, [])

    def test_layout_and_labels(self):
        browser = self.browser
        unnamed = browser.run("""[...document.querySelectorAll('input, textarea, button, summary')]
            .filter((e) => !(e.labels?.length || e.textContent.trim() || e.ariaLabel))
            .map((e) => e.id)""")
        self.assertEqual(unnamed, [])
        # A long conversation scrolls in its own place, and nothing else does.
        browser.run("addTurn('assistant', 'A line of some length.\\n'.repeat(200)) && null")
        for width, height, dark in ((1200, 760, False), (768, 1024, True), (360, 640, True)):
            with self.subTest(width=width):
                browser.resize(width, height, dark)
                self.assertLessEqual(browser.run("document.documentElement.scrollWidth"), width)
                self.assertLessEqual(browser.run("document.documentElement.scrollHeight"), height)
                self.assertLessEqual(browser.run("$('form').getBoundingClientRect().bottom"),
                                     height)
        light, dark = [], []
        for colours, is_dark in ((light, False), (dark, True)):
            browser.resize(1200, 760, is_dark)
            colours.append(browser.run("getComputedStyle(document.body).backgroundColor"))
        self.assertNotEqual(light, dark)
        self.assertEqual(browser.errors, [])


class KeyTest(unittest.TestCase):
    def test_key_is_asked_for_and_kept_for_the_session(self):
        with Server(server={"api_keys": ["opensesame"]}) as server, Browser() as browser:
            browser.open(server.url + "/")
            browser.wait("$('settings').open && document.activeElement === $('key')")
            browser.call("Input.insertText", text="opensesame")
            browser.wait(READY)
            browser.run("$('max-tokens').value = 5")
            send(browser, QUESTION)
            browser.wait(f"document.querySelector('.facts') && {REPLY_ENDED}")
            self.assertEqual(browser.run(LAST_TEXT), "The primary colours are:")
            browser.call("Page.reload")
            browser.wait("document.readyState === 'complete'")
            browser.wait(READY)
            self.assertEqual(browser.run("localStorage.length"), 0)


if __name__ == "__main__":
    model_path()
    browser_path()
    unittest.main()
