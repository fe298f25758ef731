"""Makes random models of real widths and their references, on a GPU.

  python gpu_reference.py FOLDER [MODEL ...]

For each model: FOLDER/MODEL/ (config.json and bf16 weights, 1 to 2 GB) and FOLDER/MODEL.json, a
golden in the format of README.md with 128 greedy tokens, computed in float32 (no TF32) with eager
attention from those bf16 weights. Each of its rows also has `bf16_max_error` and `bf16_rms_error`:
how far transformers' own bf16 run, with its default attention, is from the float32 one. Prompts are
random ids, 1 to 700 of them.

encore_reference_test compares a plugin with the result. Nothing of it is kept in the repository:
it takes seconds to make. Needs torch, transformers 5, safetensors and numpy.
"""

import argparse
import copy
import pathlib
import sys
import time

import torch
import transformers
from transformers import AutoModelForCausalLM

from reference import all_logits, describe_steps, greedy_ids, write_json

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "bench" / "compare"))
import make_random_checkpoint  # noqa: E402
import model_shapes  # noqa: E402

GREEDY_TOKENS = 128
# name -> (shape, layers, vocabulary; None for the real one), kept small enough to be quick
MODELS = {
    "llama": ("llama-3.1-8b", 3, 32768),
    "llama_tied": ("llama-3.2-1b", 4, None),  # head_dim 64, the real vocabulary
    "qwen2": ("qwen2.5-7b", 2, 32004),        # a vocabulary that 8 does not divide
    "qwen3": ("qwen3-8b", 3, 32768),
}
PROMPTS = {"one_token": 1, "short": 23, "medium": 130, "long": 700}


def load(folder, dtype, attention):
    """The model on the GPU; a tensor that is missing or left over is an error."""
    model, report = AutoModelForCausalLM.from_pretrained(
        folder, dtype=dtype, attn_implementation=attention, output_loading_info=True)
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if report.get(kind):
            raise SystemExit(f"error: {folder}: {kind}: {report[kind]}")
    return model.eval().to("cuda")


def prompts(seed, vocab):
    generator = torch.Generator(device="cpu").manual_seed(seed)
    for name, length in PROMPTS.items():
        yield name, torch.randint(0, vocab, (length,), generator=generator, device="cpu").tolist()


def error_of(row, expected):
    difference = (row.double() - expected.double()).abs()
    return {"bf16_max_error": float(difference.max()),
            "bf16_rms_error": float(difference.square().mean().sqrt())}


def make_case(name, prompt, model32, model64, model16):
    generated = greedy_ids(model32, prompt, GREEDY_TOKENS)
    sequence = prompt + generated
    logits = all_logits(model32, sequence)
    bf16 = all_logits(model16, sequence)
    last = len(prompt) - 1
    positions = sorted({0, last // 2, last, last + 32, last + GREEDY_TOKENS - 1})
    steps = describe_steps(logits, prompt, generated)
    gaps = [a - b for a, b in zip(steps["top1_logits"], steps["top2_logits"])]
    rows = [{"position": p, **error_of(bf16[p], logits[p]),
             "logits": logits[p].double().cpu().numpy().round(5).tolist()} for p in positions]
    error = (logits.double() - all_logits(model64, sequence).double()).abs().max()
    return {"name": name, "prompt_ids": prompt, "greedy_ids": generated, "steps": steps,
            "min_top2_gap": round(min(gaps), 5), "float32_error": float(f"{float(error):.3g}"),
            "rows": rows}


def describe(case):
    worst = max(row["bf16_max_error"] for row in case["rows"])
    rms = max(row["bf16_rms_error"] for row in case["rows"])
    logits = torch.tensor(case["rows"][-1]["logits"])
    print(f"  {case['name']}: {len(set(case['greedy_ids']))} different tokens of {GREEDY_TOKENS}, "
          f"smallest gap {case['min_top2_gap']}, float32 error {case['float32_error']}, bf16 error "
          f"max {worst:.4f} rms {rms:.4f}, logits {logits.std():.2f} around {logits.mean():.2f}",
          flush=True)


def make(out_dir, name):
    shape, layers, vocab = MODELS[name]
    folder, seed = out_dir / name, list(MODELS).index(name) + 1
    config = model_shapes.config_of(shape, layers, vocab)
    make_random_checkpoint.make(folder, config, seed=seed)
    model32 = load(folder, torch.float32, "eager")
    model16 = load(folder, torch.bfloat16, "sdpa")
    model64 = copy.deepcopy(model32).double()
    cases = []
    with torch.device("cuda"):
        for case_name, prompt in prompts(seed, config["vocab_size"]):
            cases.append(make_case(case_name, prompt, model32, model64, model16))
            describe(cases[-1])
    write_json(out_dir / f"{name}.json", {
        "model": name,
        "reference": f"transformers {transformers.__version__}, torch {torch.__version__}, float32, "
                     f"{torch.cuda.get_device_name()}, eager attention; {shape}, {layers} layers, "
                     "random weights",
        "vocab_size": config["vocab_size"],
        "cases": cases,
    })


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {', '.join(MODELS)}")
    args = parser.parse_args()
    torch.set_float32_matmul_precision("highest")
    args.folder.mkdir(parents=True, exist_ok=True)
    for name in args.models or MODELS:
        start = time.perf_counter()
        make(args.folder, name)
        torch.cuda.empty_cache()
        print(f"{name}: {time.perf_counter() - start:.1f} s", flush=True)


if __name__ == "__main__":
    main()
