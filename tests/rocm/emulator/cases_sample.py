"""The sampler: greedy and seeded rows, filters, penalties, log-probabilities, rows that fail."""

import numpy as np

from case import Case, Device, Result, different, untouched
from kernel_library import RowSampling, SampleArgs, address

_BIAS = np.dtype([("token", np.int32), ("bias", np.float32)])
_COUNT = np.dtype([("token", np.int32), ("in_prompt", np.int32), ("in_output", np.int32)])
_SLACK = 1e-5  # of the running sum of probability: f32 exponentials
_MAX_LOGPROBS = 4


def _uniform(seed: int, position: int) -> float:
    """The 53-bit number of Philox 4x32-10 with this key and counter."""
    mask = 0xFFFFFFFF
    counter = [position & mask, position >> 32, 0, 0]
    key = [seed & mask, seed >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [b >> 32 ^ counter[1] ^ key[0], b & mask, a >> 32 ^ counter[3] ^ key[1], a & mask]
        key = [key[0] + 0x9E3779B9 & mask, key[1] + 0xBB67AE85 & mask]
    return ((counter[0] | counter[1] << 32) >> 11) * 2.0**-53


class _Row:
    """One row's logits and parameters, and what a plain sampler makes of them."""

    def __init__(self, logits, bias=(), seen=(), pending=-1, **parameters):
        self.logits = logits.astype(np.float32)
        self.bias, self.seen, self.pending = list(bias), list(seen), pending
        defaults = {
            "temperature": 0,
            "top_p": 1,
            "min_p": 0,
            "repetition_penalty": 1,
            "presence_penalty": 0,
            "frequency_penalty": 0,
            "top_k": 0,
            "num_logprobs": -1,
            "seed": 0,
            "position": 0,
        }
        self.parameters = RowSampling(**{**defaults, **parameters})

    def adjusted(self, valid: int) -> np.ndarray:
        p, values = self.parameters, self.logits[:valid].astype(np.float64)
        for token, bias in self.bias:
            values[token] += bias
        counts = {token: [prompt, output] for token, prompt, output in self.seen}
        if self.pending >= 0:
            counts.setdefault(self.pending, [0, 0])[1] += 1
        for token, (prompt, output) in counts.items():
            if prompt + output > 0:
                by = np.float64(p.repetition_penalty)
                values[token] = values[token] / by if values[token] > 0 else values[token] * by
            values[token] -= np.float64(p.frequency_penalty) * output
            values[token] -= np.float64(p.presence_penalty) * (output > 0)
        return values

    def status(self, valid: int) -> int:
        if np.isnan(self.logits[:valid]).any() or np.isposinf(self.logits[:valid]).any():
            return 1
        return 2 if np.isneginf(self.adjusted(valid)).all() else 0

    def accepts(self, token: int, valid: int) -> bool:
        p, values = self.parameters, self.adjusted(valid)
        if p.temperature <= 1e-4:
            return token == int(np.argmax(values))
        shares = np.exp((values - values.max()) / np.float64(p.temperature))
        shares /= shares.sum()
        order = np.argsort(-values, kind="stable")
        kept = order[shares[order] >= np.float64(p.min_p) * shares[order[0]]]
        if p.top_k > 0:
            kept = kept[: p.top_k]
        running = np.cumsum(shares[kept]) / shares[kept].sum()
        kept = kept[: np.searchsorted(running, np.float64(p.top_p)) + 1]
        if token not in kept:
            return False
        shares[np.setdiff1d(order, kept)] = 0
        above = np.cumsum(shares) / shares.sum()
        below = above[token] - shares[token] / shares.sum()
        return below - _SLACK <= _uniform(p.seed, p.position) <= above[token] + _SLACK


def _rows(vocab: int) -> list[_Row]:
    random = np.random.default_rng(9)

    def logits(deviation=2.0):
        return random.normal(0, deviation, vocab)

    tie = np.round(logits())  # several equal highest logits
    invalid_highest = logits()
    invalid_highest[vocab - 2] = 100  # past num_valid_tokens
    nan, nothing, infinite = logits(), np.full(vocab, -np.inf), logits()
    nan[vocab // 2], infinite[3] = np.nan, np.inf
    penalties = {"repetition_penalty": 1.3, "frequency_penalty": 0.4, "presence_penalty": 0.7}
    seeded = {"temperature": 0.8, "seed": 0x123456789ABCDEF0, "position": 41}
    best = logits()
    seen = [(int(np.argmax(best)), 1, 2), (5, 2, 0), (vocab // 3, 0, 3)]
    return [
        _Row(logits()),
        _Row(tie),
        _Row(invalid_highest),
        _Row(logits(), num_logprobs=3),
        _Row(logits(), bias=[(vocab // 2, 20.0)]),
        _Row(best, seen=seen, pending=11, **penalties),
        _Row(logits(), **seeded),
        _Row(logits(), **{**seeded, "position": 1 << 40, "temperature": 1.5}),
        _Row(logits(), top_k=7, **seeded),
        _Row(logits(), top_p=0.6, **seeded),
        _Row(logits(), min_p=0.1, **seeded),
        _Row(
            best, seen=seen, pending=7, top_k=40, top_p=0.9, num_logprobs=4, **penalties, **seeded
        ),
        _Row(nan),
        _Row(infinite, **seeded),
        _Row(nothing, **seeded),
    ]


def _concatenated(device: Device, lists, kind):
    starts = np.cumsum([0] + [len(entries) for entries in lists]).astype(np.int32)
    flat = np.array([entry for entries in lists for entry in entries], kind)
    return device.copy(starts), device.copy(flat)


def _logprob_error(rows, valid, tokens, logprobs, top_tokens, top_logprobs) -> float:
    worst = 0.0
    for i, row in enumerate(rows):
        wanted = row.parameters.num_logprobs
        if wanted < 0 or row.status(valid):
            continue
        values = row.logits[:valid].astype(np.float64)
        expected = values - values.max() - np.log(np.exp(values - values.max()).sum())
        worst = max(worst, abs(logprobs[i] - expected[tokens[i]]))
        order = np.argsort(-values, kind="stable")[:wanted]
        worst = max(worst, np.abs(top_logprobs[i, :wanted] - expected[order]).max())
        if different(top_tokens[i, :wanted], order) or (top_tokens[i, wanted:] != -1).any():
            return np.inf
    return worst


def _sample(device: Device, vocab: int) -> Result:
    rows = _rows(vocab)
    maximum, live, valid = len(rows) + 1, len(rows), vocab - 5
    logits = device.empty((maximum, vocab), np.float32)
    logits[:live] = [row.logits for row in rows]
    parameters = device.empty((maximum,), np.dtype((np.void, 48)))
    for i, row in enumerate(rows):
        parameters[i] = bytes(row.parameters)
    none = [[]]
    bias_start, biases = _concatenated(device, [r.bias for r in rows] + none, _BIAS)
    history_start, history = _concatenated(device, [r.seen for r in rows] + none, _COUNT)
    pending = np.array([row.pending for row in rows] + [-1], np.int32)
    outputs = {
        "tokens": device.empty((maximum,), np.int32),
        "row_status": device.empty((maximum,), np.int32),
        "token_logprobs": device.empty((maximum,), np.float32),
        "top_tokens": device.empty((maximum, _MAX_LOGPROBS), np.int32),
        "top_logprobs": device.empty((maximum, _MAX_LOGPROBS), np.float32),
    }
    for name, array in outputs.items():
        array[...] = 7  # poison would look like token -1
    workspace = device.empty(
        (device.library.size("sample_workspace_bytes", maximum, vocab),), np.uint8
    )
    args = SampleArgs(
        rows=device.live_rows(live, maximum),
        logits=address(logits),
        logits_stride=vocab,
        vocab_size=vocab,
        num_valid_tokens=address(device.copy(np.array([valid], np.int32))),
        params=address(parameters),
        bias_start=address(bias_start),
        biases=address(biases),
        history_start=address(history_start),
        history=address(history),
        logit_rows=address(device.copy(np.arange(maximum, dtype=np.int32))),
        token_ids=address(device.copy(np.where(pending >= 0, -1, 3).astype(np.int32))),
        input_tokens=address(device.copy(np.where(pending >= 0, pending, 3).astype(np.int32))),
        max_logprobs=_MAX_LOGPROBS,
        workspace=address(workspace),
        **{name: address(array) for name, array in outputs.items()},
    )
    device.library.call("sample", args)
    tokens, status = outputs["tokens"], outputs["row_status"]
    wrong = int(tokens[live] != 7) + int(status[live] != 7) + int(not untouched(logits[live:]))
    for i, row in enumerate(rows):
        expected = row.status(valid)
        if status[i] != expected:
            wrong += 1
        elif expected:
            wrong += int(tokens[i] != -1)
        else:
            wrong += int(not row.accepts(int(tokens[i]), valid))
    error = _logprob_error(
        rows, valid, *[outputs[name] for name in outputs if name != "row_status"]
    )
    return Result(error if not wrong else np.inf, 1e-5, list(outputs.values()))


CASES = [
    Case("sample", "15 of 16 rows x 1003 tokens", lambda device: _sample(device, 1003)),
    Case("sample", "15 of 16 rows x 9000 tokens", lambda device: _sample(device, 9000)),
]
