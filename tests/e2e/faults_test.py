"""What others' servers died of, over the wire: clients that vanish, hostile bodies, prompts past
the limit, a port that is taken.

ENCORE_E2E_ROUNDS (100): clients that vanish in all.
"""

import asyncio
import json
import os
import random
import subprocess
import time
import unittest

import raw_http
from encore_server import MODEL_NAME, Server, binary, golden, model_path
from raw_http import Connection

ROUNDS = int(os.environ.get("ENCORE_E2E_ROUNDS", "100"))
CODE = golden("code")
CODE_TEXT = (" < target:\n            low = mid + 1\n        elif items[mid] > target:\n"
             "            high = mid - 1\n        else:\n           ")  # 30 tokens


def completion(prompt=None, **options):
    return {"model": MODEL_NAME, "prompt": prompt or CODE["prompt_ids"], "max_tokens": 30,
            "temperature": 0, **options}


class ClientGoneTest(unittest.TestCase):
    """V1: whatever a request is doing when its client vanishes, its place and pages come back."""

    def test_places_and_pages_come_back(self):
        with Server(scheduler={"max_running_requests": 4},
                    kv_cache={"max_tokens": 8192}) as server:
            chance = random.Random(1)
            done = 0
            while done < ROUNDS:
                rounds = min(20, ROUNDS - done)
                done += rounds
                asyncio.run(self.vanishing(server, chance, rounds))
                self.check_baseline(server)

    async def vanishing(self, server, chance, rounds):
        ways = [self.while_queued, self.in_prefill, self.in_decode, self.at_the_last_token,
                self.before_the_reply, self.in_the_middle_of_the_body]
        bystanders = [asyncio.create_task(self.bystander(server.port)) for _ in range(2)]
        await asyncio.gather(*(ways[i % len(ways)](server.port, chance) for i in range(rounds)))
        for bystander in bystanders:
            status, body = await bystander
            self.assertEqual(status, 200, body)
            self.assertEqual(json.loads(body)["choices"][0]["text"], CODE_TEXT)

    def bystander(self, port):
        return raw_http.ask(port, "POST", "/v1/completions", completion())

    def check_baseline(self, server):
        start = time.monotonic()
        server.wait_until_idle(seconds=10)
        self.assertLess(time.monotonic() - start, 2.0)

    async def while_queued(self, port, chance):
        """Behind four others at least, most of the time: the rounds start together."""
        async with Connection(port) as connection:
            await connection.send("POST", "/v1/completions", completion(stream=True))
            await asyncio.sleep(chance.random() * 0.01)
            connection.vanish()

    async def in_prefill(self, port, chance):
        prompt = [chance.randrange(1000, 40000) for _ in range(1500)]
        async with Connection(port) as connection:
            await connection.send("POST", "/v1/completions", completion(prompt, stream=True))
            await asyncio.sleep(chance.random() * 0.3)
            connection.vanish()

    async def in_decode(self, port, chance):
        await self.after_events(port, chance.randrange(1, 12),
                                completion(max_tokens=500, ignore_eos=True, stream=True))

    async def at_the_last_token(self, port, chance):
        """The last text, the end, or what follows it."""
        await self.after_events(port, chance.randrange(4, 8), completion(max_tokens=5, stream=True))

    async def after_events(self, port, count, request):
        async with Connection(port) as connection:
            await connection.send("POST", "/v1/completions", request)
            status, _ = await connection.head()
            self.assertEqual(status, 200)
            async for _ in connection.events():
                count -= 1
                if count == 0:
                    break
            connection.vanish()

    async def before_the_reply(self, port, chance):
        async with Connection(port) as connection:
            await connection.send("POST", "/v1/completions",
                                  completion(max_tokens=400, ignore_eos=True))
            await asyncio.sleep(chance.random() * 0.5)
            connection.vanish()

    async def in_the_middle_of_the_body(self, port, chance):
        body = json.dumps(completion()).encode()
        async with Connection(port) as connection:
            connection.writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: "
                                    + str(len(body)).encode() + b"\r\n\r\n"
                                    + body[:chance.randrange(len(body))])
            await asyncio.sleep(chance.random() * 0.01)
            connection.vanish()


class HostileBodyTest(unittest.TestCase):
    """V2: an answer in the API's shape, and the next request is served."""

    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(Server())

    def refuse(self, status, body):
        found, answer = self.server.post("/v1/chat/completions", body)
        self.assertEqual(found, status, answer)
        self.assertEqual(set(json.loads(answer)["error"]), {"message", "type", "param", "code"})
        found, answer = self.server.post("/v1/completions", completion())
        self.assertEqual(found, 200, answer)
        self.assertEqual(json.loads(answer)["choices"][0]["text"], CODE_TEXT)

    def chat(self, extra=b"", messages=b'[{"role": "user", "content": "hi"}]'):
        return b'{"model": "smollm2", "max_tokens": 1, "messages": ' + messages + extra + b"}"

    def test_deep_nesting(self):
        deep = b"[" * 100_000 + b"]" * 100_000
        objects = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
        for field in (b', "tools": ', b', "unheard_of": ', b', "metadata": ',
                      b', "response_format": {"type": "json_schema", "json_schema": '):
            end = b"}" if b"schema" in field else b""
            with self.subTest(field):
                self.refuse(400, self.chat(field + deep + end))
                self.refuse(400, self.chat(field + objects + end))
        self.refuse(400, b"[" * 3_000)

    def test_cut_and_empty(self):
        whole = self.chat()
        for body in (b"", b"{", whole[:-1], whole[:20], b"null", b"[]", b'"hi"', b"1"):
            with self.subTest(body):
                self.refuse(400, body)

    def test_bytes_that_are_no_text(self):
        self.refuse(400, self.chat(messages=b'[{"role": "user", "content": "\xff\xfe"}]'))
        self.refuse(400, self.chat(b', "model": "\xff\xfe"'))
        self.refuse(400, b"\xff\xfe")
        self.refuse(400, self.chat(messages=b'[{"role": "user", "content": "\\ud800"}]'))

    def test_wrong_types(self):
        for messages in (b'"hi"', b"{}", b"[1]", b'[{"role": 7, "content": "x"}]', b"null"):
            with self.subTest(messages):
                self.refuse(400, self.chat(messages=messages))

    def test_number_that_json_has_not(self):
        self.refuse(400, self.chat(b', "temperature": NaN'))
        self.refuse(400, self.chat(b', "temperature": Infinity'))
        self.refuse(400, self.chat(b', "temperature": 1e999'))

    def test_body_of_200_megabytes(self):
        async def send():
            async with Connection(self.server.port) as connection:
                connection.writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
                                        b"Content-Length: 200000000\r\n\r\n" + b" " * 65536)
                status, _ = await asyncio.wait_for(connection.head(), 30)
                return status, json.loads(await connection.body())
        before = self.server.resident_bytes()
        status, answer = asyncio.run(send())
        self.assertEqual(status, 413)
        self.assertIn("message", answer["error"])
        self.assertLess(self.server.resident_bytes() - before, 20e6)
        self.refuse(400, b"{")


class PromptLengthTest(unittest.TestCase):
    """V3: one limit, shown in /v1/models and checked at the door."""

    def check(self, server, limit):
        card = json.loads(server.get("/v1/models")[1])["data"][0]
        self.assertEqual(card["max_model_len"], limit)
        cases = [(limit - 1, 200), (limit, 400), (limit + 1, 400), (10 * limit, 400)]
        for length, expected in cases:
            with self.subTest(length=length):
                prompt = [1000 + i % 7 for i in range(length)]
                status, answer = server.post("/v1/completions", completion(prompt))
                self.assertEqual(status, expected, answer)
                answer = json.loads(answer)
                if expected == 200:
                    self.assertEqual(answer["usage"]["completion_tokens"], 1)
                    self.assertEqual(answer["choices"][0]["finish_reason"], "length")
                else:
                    self.assertEqual(answer["error"]["code"], "context_length_exceeded")
                    self.assertIn(str(limit), answer["error"]["message"].replace(",", ""))
        status, answer = server.post("/v1/completions", completion())
        self.assertEqual(json.loads(answer)["choices"][0]["text"], CODE_TEXT)

    def test_limit_is_the_context(self):
        with Server(scheduler={"max_context": 256}) as server:
            self.check(server, 256)

    def test_limit_is_what_the_cache_can_hold(self):
        with Server(scheduler={"max_context": 2048, "max_running_requests": 2},
                    kv_cache={"max_tokens": 160}) as server:
            self.check(server, 161)  # the last token of a reply is never stored

    def test_prompt_longer_than_a_step(self):
        with Server(scheduler={"max_context": 256, "max_tokens_per_step": 32,
                               "max_running_requests": 8}) as server:
            self.check(server, 256)


class PortTest(unittest.TestCase):
    """V4: the port is taken before the weights load, or the server says at once why not."""

    def test_taken_port_is_an_error_at_once(self):
        with Server() as first:
            second = Server(server={"port": first.port})
            self.addCleanup(second.folder.cleanup)
            start = time.monotonic()
            run = subprocess.run([binary(), "serve", second.config], capture_output=True,
                                 text=True, timeout=60, check=False)
            seconds = time.monotonic() - start
            self.assertNotEqual(run.returncode, 0)
            self.assertIn("127.0.0.1", run.stderr)
            self.assertIn(str(first.port), run.stderr)
            self.assertLess(seconds, 1.0)
            self.assertEqual(first.get("/health")[0], 200)

    def test_killed_server_leaves_its_port_free(self):
        with Server() as first:
            port = first.port
        asyncio.run(self.restart(port))

    async def restart(self, port):
        server = Server(server={"port": port})
        self.addCleanup(server.folder.cleanup)
        for i in range(20):
            server.launch().wait_for_port()
            try:
                self.assertEqual(server.port, port)
                # A connection that is open when the server dies.
                async with Connection(port) as connection:
                    status, _ = await connection.ask("GET", "/health")
                    self.assertEqual(status, 200)
                    if i == 19:
                        server.wait_until_ready()
                    server.kill()
            finally:
                server.kill()


if __name__ == "__main__":
    model_path()
    unittest.main()
