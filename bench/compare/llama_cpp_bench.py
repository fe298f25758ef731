"""Times llama.cpp through llama-cpp-python: prompt processing and generation.

Prints one JSON object. Timed calls are `llama_decode` and, in generation, the arg-max of its
logits, so Python's own share is a few microseconds a token. The first run of each kind is dropped.
"""

import argparse
import ctypes
import json
import time

import llama_cpp
import numpy as np

from timing import summary


def open_context(args):
    params = llama_cpp.llama_model_default_params()
    model = llama_cpp.llama_model_load_from_file(args.model.encode(), params)
    context = llama_cpp.llama_context_default_params()
    context.n_ctx = args.prompt + args.generate + 64
    context.n_batch = context.n_ubatch = max(512, args.prompt)
    context.n_threads = context.n_threads_batch = args.threads
    return model, llama_cpp.llama_init_from_model(model, context)


def decode(context, ids):
    tokens = (llama_cpp.llama_token * len(ids))(*ids)
    batch = llama_cpp.llama_batch_get_one(tokens, len(ids))
    if llama_cpp.llama_decode(context, batch) != 0:
        raise RuntimeError(f"llama_decode failed on {len(ids)} tokens")


def greedy(context, vocab):
    logits = llama_cpp.llama_get_logits_ith(context, -1)
    return int(np.ctypeslib.as_array(logits, shape=(vocab,)).argmax())


def clear(context):
    llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(context), True)


def time_prefill(context, ids, vocab):
    clear(context)
    start = time.perf_counter()
    decode(context, ids)
    greedy(context, vocab)
    return len(ids) / (time.perf_counter() - start)


def time_generation(context, first, count, vocab):
    clear(context)
    decode(context, [first])
    token = greedy(context, vocab)
    start = time.perf_counter()
    for _ in range(count):
        decode(context, [token])
        token = greedy(context, vocab)
    return count / (time.perf_counter() - start)


def silence():
    callback = llama_cpp.llama_log_callback(lambda level, text, data: None)
    llama_cpp.llama_log_set(callback, ctypes.c_void_p(0))
    return callback


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--generate", type=int, default=128)
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    keep = silence()
    llama_cpp.llama_backend_init()
    model, context = open_context(args)
    vocab = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))
    ids = [(17 + 31 * i) % vocab for i in range(args.prompt)]
    prefill = [time_prefill(context, ids, vocab) for _ in range(args.runs + 1)][1:]
    generate = [time_generation(context, ids[0], args.generate, vocab)
                for _ in range(args.runs + 1)][1:]
    print(json.dumps({
        "engine": f"llama.cpp (llama-cpp-python {llama_cpp.__version__})",
        "features": llama_cpp.llama_print_system_info().decode().strip(),
        "threads": args.threads,
        "prefill": {"tokens": args.prompt, **summary(prefill)},
        "decode": {"tokens": args.generate, **summary(generate)},
    }))
    del keep


if __name__ == "__main__":
    main()
