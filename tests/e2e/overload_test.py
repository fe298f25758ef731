"""Ten times more than the server can do at once, from clients that leave as they please.

ENCORE_E2E_SECONDS (20)    how long the load lasts
ENCORE_E2E_REQUESTS (0)    and how many requests it has at least
ENCORE_E2E_STREAMS (2000)  begun and held at once
The full run: ENCORE_E2E_SECONDS=600 ENCORE_E2E_REQUESTS=1000
"""

import asyncio
import collections
import json
import os
import random
import statistics
import subprocess
import sys
import time
import unittest

import raw_http
from encore_server import MODEL_NAME, Server, golden, model_path
from raw_http import Connection

SECONDS = float(os.environ.get("ENCORE_E2E_SECONDS", "20"))
REQUESTS = int(os.environ.get("ENCORE_E2E_REQUESTS", "0"))
STREAMS = int(os.environ.get("ENCORE_E2E_STREAMS", "2000"))
CLIENTS = 200
RUNNING = 20  # requests at a time: 200 clients are ten times that
COMPLETED = 50  # requests at least, however slow the machine
STUCK_SECONDS = 180  # no answer for so long: stuck
BEGIN_SECONDS = 400  # until the last of many streams has begun
HEALTH_SECONDS = 0.05  # of 99 in 100 answers of /health
NAMES = ("prose", "code", "numbers", "french_german", "scripts", "chat", "one_token")
LEAVER_TOKENS = 240  # what those ask for who leave


class Load:
    """The clients, and what they saw."""

    def __init__(self, port, expected):
        self.port = port
        self.expected = expected  # [(request, text, completion_tokens)]
        self.outcomes = collections.Counter()
        self.completed_tokens = 0  # by usage
        self.cut_tokens = 0  # at least: one for each event with text before a client left
        self.faults = []

    async def run(self, seconds, requests):
        self.end = time.monotonic() + seconds
        self.requests = requests
        await asyncio.gather(*(self.client(random.Random(i)) for i in range(CLIENTS)))

    def goes_on(self):
        return (time.monotonic() < self.end or self.total() < self.requests
                or self.outcomes["completed"] < COMPLETED)

    def total(self):
        """Requests, without those for which the queue was full."""
        return self.outcomes.total() - self.outcomes["queue full"]

    async def client(self, chance):
        actions = [self.complete, self.complete_stream, self.complete_stream, self.leave_stream,
                   self.leave_before_reply, self.close_half_way]
        while self.goes_on():
            action = chance.choice(actions)
            request, text, tokens = chance.choice(self.expected)
            try:
                async with asyncio.timeout(STUCK_SECONDS):
                    outcome = await action(chance, dict(request), text, tokens)
            except TimeoutError:
                outcome = "stuck"
                self.faults.append(f"{action.__name__}: no end within {STUCK_SECONDS} s")
            except Exception as error:  # whatever it is, it is the server's doing
                outcome = "failed"
                self.faults.append(f"{action.__name__}: {error!r}")
            self.outcomes[outcome] += 1
            if outcome == "queue full":
                await asyncio.sleep(2 * chance.random())

    def check(self, text, usage, expected_text, expected_tokens):
        self.completed_tokens += usage["completion_tokens"]
        if text != expected_text or usage["completion_tokens"] != expected_tokens:
            self.faults.append(f"alone {expected_text!r}, in company {text!r} with {usage}")
        return "completed"

    async def open(self, connection, request):
        """Whether the request was taken; else the queue is full."""
        await connection.send("POST", "/v1/completions", request)
        status, headers = await connection.head()
        if status == 429:
            assert int(headers["retry-after"]) >= 1
            await connection.body()
            return False
        assert status == 200, (status, await connection.body())
        return True

    async def complete(self, _, request, text, tokens):
        async with Connection(self.port) as connection:
            if not await self.open(connection, request):
                return "queue full"
            answer = json.loads(await connection.body())
        return self.check(answer["choices"][0]["text"], answer["usage"], text, tokens)

    async def complete_stream(self, _, request, text, tokens):
        request |= {"stream": True, "stream_options": {"include_usage": True}}
        found, usage, endings = "", None, []
        async with Connection(self.port) as connection:
            if not await self.open(connection, request):
                return "queue full"
            async for data in connection.events():
                if data == "[DONE]":
                    endings.append(data)
                    continue
                part = json.loads(data)
                usage = part.get("usage") or usage
                for choice in part["choices"]:
                    found += choice["text"]
                    if choice["finish_reason"]:
                        endings.append(choice["finish_reason"])
        assert endings == ["length", "[DONE]"], endings
        return self.check(found, usage, text, tokens)

    # Those who leave ask for much more than they wait for, so that what the server counts as
    # completed is exactly what completed here.
    async def leave_stream(self, chance, request, *_):
        request |= {"stream": True, "max_tokens": LEAVER_TOKENS}
        async with Connection(self.port) as connection:
            if not await self.open(connection, request):
                return "queue full"
            events = chance.randrange(12)
            async for data in connection.events():
                if events == 0:
                    break
                events -= 1
                self.cut_tokens += bool(json.loads(data)["choices"][0]["text"])
            if chance.random() < 0.5:
                connection.vanish()
        return "left the stream"

    async def leave_before_reply(self, chance, request, *_):
        async with Connection(self.port) as connection:
            await connection.send("POST", "/v1/completions", request | {"max_tokens": LEAVER_TOKENS})
            await asyncio.sleep(chance.random() * 0.5)
            if chance.random() < 0.5:
                connection.vanish()
        return "left before the reply"

    async def close_half_way(self, chance, request, *_):
        body = json.dumps(request).encode()
        async with Connection(self.port) as connection:
            connection.writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
                                    + f"Content-Length: {len(body)}\r\n\r\n".encode()
                                    + body[:chance.randrange(len(body))])
            await connection.writer.drain()
        return "left half way"


async def probe_health(port):
    """Asks /health 20 times a second until standard input closes; prints the seconds it took."""
    loop = asyncio.get_running_loop()
    closed = loop.run_in_executor(None, sys.stdin.read)
    times = []
    async with Connection(port) as connection:
        while not closed.done():
            start = time.perf_counter()
            status, _ = await connection.ask("GET", "/health")
            times.append(time.perf_counter() - start)
            assert status == 200, status
            await asyncio.sleep(0.05)
    print(json.dumps(times))


class HealthProbe:
    """probe_health in a process of its own: the clients' load must not count as the server's."""

    def __init__(self, port):
        self.process = subprocess.Popen([sys.executable, __file__, "--probe-health", str(port)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def times(self):
        output, _ = self.process.communicate(timeout=60)
        assert self.process.returncode == 0
        return json.loads(output)


async def sample_memory(server, samples):
    while True:
        samples.append((time.monotonic(), server.resident_bytes()))
        await asyncio.sleep(0.25)


def growth(samples):
    """Bytes by which memory grew after a third of the time, along the line of least squares."""
    begin, end = samples[0][0], samples[-1][0]
    later = [sample for sample in samples if sample[0] >= begin + (end - begin) / 3]
    slope, _ = statistics.linear_regression(*zip(*later))
    return slope * (later[-1][0] - later[0][0])


class OverloadTest(unittest.TestCase):
    def expected(self, server):
        """The texts of requests that are alone; they share no prefix that was cached before."""
        requests = []
        for i, name in enumerate(NAMES):
            for max_tokens in (4 + 3 * i, 96 - 6 * i):
                request = {"model": MODEL_NAME, "prompt": golden(name)["prompt_ids"],
                           "max_tokens": max_tokens, "temperature": 0, "ignore_eos": True}
                status, body = server.post("/v1/completions", request)
                self.assertEqual(status, 200, body)
                answer = json.loads(body)
                requests.append((request, answer["choices"][0]["text"],
                                 answer["usage"]["completion_tokens"]))
        code = next(text for request, text, _ in requests
                    if request["prompt"] == golden("code")["prompt_ids"])
        self.assertTrue(code.startswith(" < target:"), code)
        return requests

    def test_load(self):
        # 20 pages: whoever is let in finds room for his prompt and a page more; a few who ask for
        # 60 tokens or more take it all.
        with Server(scheduler={"max_running_requests": RUNNING, "max_context": 1024},
                    kv_cache={"max_tokens": 320},
                    server={"max_queue": 100}) as server:
            load = Load(server.port, self.expected(server))
            server.wait_until_idle()
            before = server.metrics()
            probe = HealthProbe(server.port)
            samples = []

            async def run():
                sampling = asyncio.create_task(sample_memory(server, samples))
                await load.run(SECONDS, REQUESTS)
                sampling.cancel()

            asyncio.run(run())
            times = sorted(probe.times())
            server.wait_until_idle(seconds=30)
            after = server.metrics()

        def grown(name, label=""):
            return after(name, label) - before(name, label)

        p99 = times[int(0.99 * len(times))]
        print(f"{load.total()} requests: {dict(load.outcomes)}; {load.completed_tokens} tokens of "
              f"completed ones, {int(grown('generation_tokens_total'))} in all; "
              f"{int(grown('num_preemptions_total'))} preemptions; /health p99 {1e3 * p99:.1f} ms of "
              f"{len(times)}; memory grew {growth(samples) / 1e6:.1f} MB to "
              f"{samples[-1][1] / 1e6:.0f} MB", file=sys.stderr)
        self.assertEqual(load.faults[:5], [])
        self.assertGreaterEqual(load.outcomes["completed"], COMPLETED)
        self.assertGreater(load.outcomes["left the stream"], 5)
        self.assertGreaterEqual(load.total(), REQUESTS)
        # Every token is accounted for.
        self.assertEqual(grown("request_generation_tokens_sum"), load.completed_tokens)
        self.assertEqual(grown("request_success_total", 'finished_reason="length"'),
                         load.outcomes["completed"])
        self.assertGreaterEqual(grown("generation_tokens_total"),
                                load.completed_tokens + load.cut_tokens)
        self.assertEqual(grown("request_success_total", 'finished_reason="error"'), 0)
        self.assertGreater(grown("num_preemptions_total"), 0)
        self.assertLess(p99, HEALTH_SECONDS)
        self.assertLess(growth(samples), 16e6)

    def test_many_streams(self):
        """Every one has begun and none has ended: the server holds them all at once."""
        self.assertTrue(raw_http.allow_many_files(2 * STREAMS + 100),
                        f"the hard limit of open files is too low for {STREAMS} connections")
        with Server(scheduler={"max_running_requests": STREAMS, "max_tokens_per_step": STREAMS,
                               "max_context": 1024},
                    kv_cache={"max_tokens": 64 * STREAMS},
                    server={"max_queue": STREAMS, "max_connections": STREAMS + 100}) as server:
            asyncio.run(self.hold_streams(server))
            server.wait_until_idle(seconds=30)
            self.assertEqual(server.metrics()("request_success_total", "length"), 1)

    async def hold_streams(self, server):
        request = {"model": MODEL_NAME, "prompt": "The", "max_tokens": 1000, "temperature": 0,
                   "ignore_eos": True, "stream": True}
        connections = []
        for _ in range(STREAMS):
            connection = await Connection(server.port).__aenter__()
            await connection.send("POST", "/v1/completions", request)
            connections.append(connection)

        async def begin(connection):
            status, _ = await connection.head()
            first = json.loads(await anext(connection.events()))
            return status, first["choices"][0]["text"]
        async with asyncio.timeout(BEGIN_SECONDS):
            firsts = await asyncio.gather(*(begin(connection) for connection in connections))
        self.assertEqual(collections.Counter(firsts), {(200, "-"): STREAMS})
        now = await asyncio.to_thread(server.metrics)
        self.assertEqual(now("num_requests_running") + now("num_requests_waiting"), STREAMS)
        self.assertEqual(now("request_success_total"), 0)
        self.assertGreaterEqual(now("http_connections"), STREAMS)
        status, body = await raw_http.ask(server.port, "GET", "/health")
        self.assertEqual(status, 200, body)
        # All leave; whoever comes then is served.
        for connection in connections:
            connection.vanish()
        status, body = await raw_http.ask(server.port, "POST", "/v1/completions", {
            "model": MODEL_NAME, "prompt": golden("one_token")["prompt_ids"], "max_tokens": 17,
            "temperature": 0})
        self.assertEqual(status, 200, body)
        self.assertEqual(json.loads(body)["choices"][0]["text"],
                         "-the-world-is-a-world-of-fantasies-")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--probe-health"]:
        asyncio.run(probe_health(int(sys.argv[2])))
    else:
        model_path()
        unittest.main()
