"""The page's content security policy names the hashes of its own style and script."""

import base64
import hashlib
import pathlib
import re
import unittest

PAGE = pathlib.Path(__file__).resolve().parents[2] / "host/serve/page/index.html"


def content_hash(page, tag):
    (content,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
    return "'sha256-%s'" % base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


class PagePolicyTest(unittest.TestCase):
    def setUp(self):
        self.page = PAGE.read_text(encoding="utf-8")
        (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', self.page)
        self.policy = dict(part.strip().split(" ", 1) for part in policy.split(";"))

    def test_hashes_are_those_of_the_style_and_the_script(self):
        self.assertEqual(self.policy["style-src"], content_hash(self.page, "style"))
        self.assertEqual(self.policy["script-src"], content_hash(self.page, "script"))

    def test_nothing_else_is_allowed(self):
        del self.policy["style-src"], self.policy["script-src"]
        self.assertEqual(self.policy, {
            "default-src": "'none'", "connect-src": "'self'", "img-src": "data:",
            "base-uri": "'none'", "form-action": "'none'"})

    def test_text_reaches_the_page_as_text_alone(self):
        for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
            self.assertNotIn(way, self.page)


if __name__ == "__main__":
    unittest.main()
