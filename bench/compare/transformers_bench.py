"""Times transformers on a 1B-class Llama of random bf16 weights: prefill and decode.

The model has the shapes of Llama-3.2-1B; speed does not depend on what the weights say. It is made
once (2.5 GB), as safetensors, so that Encore runs the very same files. Prints one JSON object. The
first run of each kind is dropped.
"""

import argparse
import json
import pathlib
import time

import torch
import transformers
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM

from timing import summary

CONFIG = {"vocab_size": 128256, "hidden_size": 2048, "intermediate_size": 8192,
          "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8,
          "head_dim": 64, "max_position_embeddings": 131072, "rms_norm_eps": 1e-5,
          "tie_word_embeddings": True, "bos_token_id": 128000, "eos_token_id": 128001}
ROPE = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 32.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}


def make_model(folder):
    """Random weights of deviation 0.02, norms of 1, in one safetensors file."""
    config = LlamaConfig(**CONFIG, rope_parameters=ROPE, dtype="bfloat16",
                         architectures=["LlamaForCausalLM"])
    with torch.device("meta"):
        shapes = {n: p.shape for n, p in LlamaForCausalLM(config).named_parameters()}
    torch.manual_seed(0)
    tensors = {}
    for name, shape in shapes.items():
        tensor = torch.ones(shape, dtype=torch.bfloat16)
        tensors[name] = tensor if len(shape) == 1 else tensor.normal_(0.0, 0.02)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config.save_pretrained(folder)


@torch.inference_mode()
def time_prefill(model, ids):
    start = time.perf_counter()
    logits = model(input_ids=ids, use_cache=True, logits_to_keep=1).logits
    logits.argmax(-1)
    return ids.shape[1] / (time.perf_counter() - start)


@torch.inference_mode()
def time_decode(model, first, count):
    result = model(input_ids=first, use_cache=True)
    start = time.perf_counter()
    for _ in range(count):
        token = result.logits[:, -1].argmax(-1, keepdim=True)
        result = model(input_ids=token, past_key_values=result.past_key_values, use_cache=True)
    return count / (time.perf_counter() - start)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=pathlib.Path, help="folder; made when missing")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--generate", type=int, default=64)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--make-only", action="store_true")
    args = parser.parse_args()
    if not (args.model / "config.json").exists():
        make_model(args.model)
    if args.make_only:
        return
    torch.set_num_threads(args.threads)
    model = LlamaForCausalLM.from_pretrained(args.model, dtype=torch.bfloat16).eval()
    ids = torch.tensor([[(17 + 31 * i) % CONFIG["vocab_size"] for i in range(args.prompt)]])
    prefill = [time_prefill(model, ids) for _ in range(args.runs + 1)][1:]
    decode = [time_decode(model, ids[:, :1], args.generate) for _ in range(args.runs + 1)][1:]
    print(json.dumps({
        "engine": f"transformers {transformers.__version__}, torch {torch.__version__}",
        "threads": args.threads,
        "prefill": {"tokens": args.prompt, **summary(prefill)},
        "decode": {"tokens": args.generate, **summary(decode)},
    }))


if __name__ == "__main__":
    main()
