"""Runs a Hugging Face model greedily and records what the C++ tests compare against.

Everything here computes in float32 on the CPU with eager attention, so that a golden is the
model's definition and not one kernel's rounding. The float64 pass measures the reference's own
error, which bounds how tight a test can be.
"""

import json

import torch

GREEDY_TOKENS = 64


def rounded(values, digits=5):
    """Floats as plain lists of short decimals; five decimals is below float32's error here."""
    return [round(float(v), digits) for v in values]


@torch.no_grad()
def greedy_ids(model, prompt_ids, count=GREEDY_TOKENS):
    """The `count` ids that arg-max decoding appends, with a KV cache, end tokens ignored."""
    ids = torch.tensor([prompt_ids])
    cache, out = None, []
    for _ in range(count):
        result = model(input_ids=ids, past_key_values=cache, use_cache=True)
        cache = result.past_key_values
        out.append(int(result.logits[0, -1].argmax()))
        ids = torch.tensor([[out[-1]]])
    return out


@torch.no_grad()
def all_logits(model, ids):
    """Logits [len(ids), vocab] of one forward pass without a cache."""
    return model(input_ids=torch.tensor([ids]), use_cache=False).logits[0]


def describe_steps(logits, prompt_ids, generated):
    """Per generated token: both leading candidates and the chosen one's log-probability."""
    rows = logits[len(prompt_ids) - 1 : len(prompt_ids) - 1 + len(generated)]
    top = rows.topk(2, dim=-1)
    log_probs = rows.double().log_softmax(-1)
    chosen = log_probs[torch.arange(len(generated)), torch.tensor(generated)]
    # The cached loop and the single pass may only differ where two candidates are all but equal.
    for step, token in enumerate(generated):
        gap = float(top.values[step, 0] - top.values[step, 1])
        assert token == int(top.indices[step, 0]) or gap < 1e-3, (step, token, gap)
    return {
        "top1_logits": rounded(top.values[:, 0]),
        "top2_ids": top.indices[:, 1].tolist(),
        "top2_logits": rounded(top.values[:, 1]),
        "logprobs": rounded(chosen),
    }


def run_case(model, model64, name, prompt_ids, describe_row, positions, text=None):
    """One golden case: greedy continuation plus logits at `positions` of prompt + continuation."""
    generated = greedy_ids(model, prompt_ids)
    sequence = prompt_ids + generated
    logits = all_logits(model, sequence)
    error = (logits.double() - all_logits(model64, sequence)).abs().max()
    case = {"name": name}
    if text is not None:
        case["text"] = text
    case["prompt_ids"] = prompt_ids
    case["greedy_ids"] = generated
    case["steps"] = describe_steps(logits, prompt_ids, generated)
    case["min_top2_gap"] = round(
        min(a - b for a, b in zip(case["steps"]["top1_logits"], case["steps"]["top2_logits"])), 5)
    case["float32_error"] = float(f"{float(error):.3g}")
    case["rows"] = [{"position": p, **describe_row(logits[p])} for p in positions]
    return case


def write_json(path, golden):
    """Compact JSON, one case a line, so that a diff shows which case changed."""
    head = {k: v for k, v in golden.items() if k != "cases"}
    lines = [f"  {json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}," for k, v in head.items()]
    cases = [json.dumps(c, ensure_ascii=False, separators=(",", ":")) for c in golden["cases"]]
    body = ",\n    ".join(cases)
    text = "{\n" + "\n".join(lines) + '\n  "cases": [\n    ' + body + "\n  ]\n}\n"
    path.write_text(text, encoding="utf-8")
    print(f"{path.name}: {len(golden['cases'])} cases, {path.stat().st_size / 1024:.0f} KiB")
