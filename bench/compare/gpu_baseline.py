"""Times transformers on a GPU with random bf16 weights: the baseline of bench/gpu_suite.sh.

Decode runs torch.compile (mode reduce-overhead: CUDA graphs) over a static KV cache that holds 1024
tokens; prefill runs eagerly with PyTorch's scaled-dot-product attention. The device's limits are
measured in the same run. Medians after warm-up, timed by events on the device.

Compiling takes most of the time: about a second a layer and batch size. --layers runs fewer layers,
for a trial only: times do not scale with the layers alone. A part that would start after --budget
seconds is left out, and says so. Needs torch and transformers 5.
"""

import argparse
import json
import pathlib
import statistics
import time

import torch
import torch._dynamo.utils
import transformers
from transformers import AutoConfig, AutoModelForCausalLM, StaticCache

import model_shapes

CONTEXT = 1024
DECODE_WARM_UP, DECODE_STEPS = 8, 48
CACHE_TOKENS = 1088  # holds the context and the steps; a multiple of 16 keeps the fast kernels
PREFILLS = [(1, 4096), (4, 1024), (16, 256), (1, 128)]
DECODES = [1, 64]


def event_times_ms(function, warm_up, repetitions):
    """Milliseconds between the ends of consecutive calls, as the device sees them."""
    for _ in range(warm_up):
        function()
    events = [torch.cuda.Event(enable_timing=True) for _ in range(repetitions + 1)]
    torch.cuda.synchronize()
    events[0].record()
    for event in events[1:]:
        function()
        event.record()
    torch.cuda.synchronize()
    return [a.elapsed_time(b) for a, b in zip(events, events[1:])]


def median_ms(function, warm_up=3, repetitions=10):
    return statistics.median(event_times_ms(function, warm_up, repetitions))


def measure_limits():
    """Bytes a second of a copy (read and written) and of a sum, and TFLOP/s of a product."""
    source = torch.ones(2**30, dtype=torch.float32, device="cuda")
    target = torch.empty_like(source)
    copied, read = 2 * source.nbytes, source.nbytes
    copy_ms = median_ms(lambda: target.copy_(source))
    sum_ms = median_ms(lambda: torch.sum(source))
    del source, target
    a, b = (torch.randn(8192, 8192, dtype=torch.bfloat16, device="cuda") for _ in range(2))
    product_ms = median_ms(lambda: torch.matmul(a, b))
    return {"copy_tb_per_s": copied / copy_ms / 1e9, "read_tb_per_s": read / sum_ms / 1e9,
            "matmul_tflop_per_s": 2 * 8192**3 / product_ms / 1e9}


def make_model(config):
    fields = dict(config)
    hf_config = AutoConfig.for_model(fields.pop("model_type"), **fields)
    with torch.device("cuda"):
        model = AutoModelForCausalLM.from_config(hf_config, dtype=torch.bfloat16,
                                                 attn_implementation="sdpa").eval()
    for parameter in model.parameters():
        if parameter.ndim > 1:
            parameter.data.normal_(0.0, 0.02)
    return model


def random_ids(model, batch, length):
    return torch.randint(0, model.config.vocab_size, (batch, length), device="cuda")


def linear_parameters(model):
    """Of the layers alone; the head is the embedding's size, tied or not."""
    return sum(p.numel() for p in model.model.layers.parameters() if p.ndim > 1)


@torch.no_grad()
def measure_prefill(model, batch, length):
    ids = random_ids(model, batch, length)

    def prefill():
        return model(input_ids=ids, use_cache=True, logits_to_keep=1).logits.argmax(-1)

    ms = median_ms(prefill, warm_up=2, repetitions=5)
    tokens = batch * length
    return {"measure": f"prefill {batch}x{length}", "ms": ms, "tokens_per_s": 1e3 * tokens / ms,
            "linear_tflop_per_s": 2 * linear_parameters(model) * tokens / ms / 1e9}


def head_dim(config):
    return getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads


def filled_cache(model, batch):
    """A static cache that holds CONTEXT random tokens."""
    config = model.config
    cache = StaticCache(config=config, max_cache_len=CACHE_TOKENS)
    cache.early_initialization(batch, config.num_key_value_heads, head_dim(config), torch.bfloat16,
                               torch.device("cuda"))
    for layer in cache.layers:
        layer.keys.normal_()
        layer.values.normal_()
        layer.cumulative_length.fill_(CONTEXT)
    return cache


def kv_bytes(model, batch):
    """Keys and values that a step reads at the context's length."""
    config = model.config
    return (4 * config.num_hidden_layers * config.num_key_value_heads * head_dim(config) * CONTEXT
            * batch)


@torch.no_grad()
def measure_decode(model, batch):
    torch.compiler.reset()
    torch._dynamo.utils.counters.clear()
    cache = filled_cache(model, batch)
    ids = random_ids(model, batch, 1)
    position = torch.full((1, 1), CONTEXT, device="cuda")
    slots = torch.arange(CACHE_TOKENS, device="cuda")

    def step(ids, position):
        # A mask of four dimensions is used as it is, so that nothing of it is made on the host.
        mask = (slots <= position).view(1, 1, 1, -1).expand(ids.shape[0], 1, 1, -1)
        logits = model(input_ids=ids, attention_mask=mask, use_cache=True, past_key_values=cache,
                       position_ids=position.expand(ids.shape[0], 1)).logits
        return logits[:, -1].argmax(-1, keepdim=True)

    compiled = torch.compile(step, mode="reduce-overhead", dynamic=False)

    def decode():
        torch.compiler.cudagraph_mark_step_begin()
        ids.copy_(compiled(ids, position))
        position.add_(1)

    start = time.perf_counter()
    for _ in range(DECODE_WARM_UP):
        decode()
    torch.cuda.synchronize()
    compile_s = time.perf_counter() - start
    ms = statistics.median(event_times_ms(decode, 0, DECODE_STEPS))
    weights = 2 * (linear_parameters(model) + model.get_output_embeddings().weight.numel())
    counters = torch._dynamo.utils.counters
    return {"measure": f"decode batch {batch}, context {CONTEXT}", "ms": ms,
            "tokens_per_s": 1e3 * batch / ms, "compile_s": compile_s,
            "read_tb_per_s": (weights + kv_bytes(model, batch)) / ms / 1e9,
            "graph_breaks": sum(counters["graph_break"].values()),
            "cudagraph_skips": counters["inductor"]["cudagraph_skips"]}


def print_row(row):
    if "skipped" in row:
        print(f"{row['measure']:<30} skipped: {row['skipped']}", flush=True)
        return
    rate = (f"{row['linear_tflop_per_s']:8.1f} TFLOP/s" if "linear_tflop_per_s" in row else
            f"{row['read_tb_per_s']:8.2f} TB/s")
    notes = (f"   compiled in {row['compile_s']:.0f} s, {row['graph_breaks']} graph breaks, "
             f"{row['cudagraph_skips']} graphs skipped" if "compile_s" in row else "")
    print(f"{row['measure']:<30} {row['ms']:9.3f} ms {row['tokens_per_s']:10.0f} tokens/s {rate}"
          f"{notes}", flush=True)


def attempt(name, function, *arguments):
    """The measurement, or a row that says why there is none: one failure must not cost the rest."""
    try:
        return function(*arguments)
    except (RuntimeError, TypeError, AttributeError, ValueError) as error:
        return {"measure": name, "skipped": f"{type(error).__name__}: {error}"[:2000]}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="llama-3.1-8b", choices=sorted(model_shapes.SHAPES))
    parser.add_argument("--layers", type=int)
    parser.add_argument("--budget", type=float, default=120.0, metavar="SECONDS")
    parser.add_argument("--json", type=pathlib.Path, help="also written here, after each part")
    args = parser.parse_args()
    start = time.perf_counter()
    config = model_shapes.config_of(args.shape, args.layers)
    result = {"engine": f"transformers {transformers.__version__}, torch {torch.__version__}",
              "device": torch.cuda.get_device_name(), "shape": args.shape,
              "layers": config["num_hidden_layers"], "limits": measure_limits(), "rows": []}
    print(f"{result['engine']}, {result['device']}, {args.shape}, {result['layers']} layers, bf16")
    print(", ".join(f"{name} {value:.2f}" for name, value in result["limits"].items()), flush=True)
    model = make_model(config)
    parts = [(f"prefill {batch}x{length}", measure_prefill, model, batch, length)
             for batch, length in PREFILLS]
    parts += [(f"decode batch {batch}, context {CONTEXT}", measure_decode, model, batch)
              for batch in DECODES]
    for part in parts:
        late = time.perf_counter() - start > args.budget
        row = {"measure": part[0], "skipped": "out of time"} if late else attempt(*part)
        result["rows"].append(row)
        print_row(row)
        if args.json:
            args.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
