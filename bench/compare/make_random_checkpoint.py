"""Writes a Hugging Face directory with random bf16 weights of a published model's shape.

  python make_random_checkpoint.py llama-3.1-8b FOLDER             16 GB in shards of 5 GB
  python make_random_checkpoint.py qwen3-8b FOLDER --layers 3 --vocab 32768

Needs numpy. Weights are drawn from a table of 65536 normal quantiles, rounded to bf16, by as many
threads as there are processors; each writes its piece straight into place. The deviation is 0.02,
so that a linear of a normalised input gives values of about one; the two linears that add to the
residual stream are smaller by the root of their number. Norms are 1 with a deviation of 0.1, biases
have 0.5. Equal arguments write equal bytes on any machine.
"""

import argparse
import concurrent.futures
import json
import math
import os
import pathlib
import shutil
import statistics
import time

import numpy as np

import model_shapes

PIECE_ELEMENTS = 1 << 25  # 64 MiB; even, so that a pair of weights never straddles two pieces
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BYTE_TOKENIZER = ROOT / "tests" / "goldens" / "models" / "tiny_llama"
BYTE_TOKENIZER_ENDS = 256, 257  # <bos>, <eos>


def normal_table():
    """Quantiles of the standard normal at the middles of 65536 equal parts."""
    quantile = statistics.NormalDist().inv_cdf
    return np.array([quantile((i + 0.5) / 65536) for i in range(65536)], dtype=np.float32)


def to_bf16(values):
    """Bit patterns of float32 values rounded to bf16, ties to even."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def scale_of(name, config):
    """Mean and deviation of a tensor's elements."""
    if name.endswith("norm.weight"):
        return 1.0, 0.1
    if name.endswith(".bias"):
        return 0.0, 0.5
    if name.endswith(("o_proj.weight", "down_proj.weight")):
        return 0.0, 0.02 / math.sqrt(2 * config["num_hidden_layers"])
    if "embed_tokens" in name and not config["tie_word_embeddings"]:
        return 0.0, 0.5  # else layers would drown which token it is; a tied head needs 0.02
    return 0.0, 0.02


def shards_of(config, shard_bytes):
    """Lists of (name, shape), each of at most `shard_bytes` unless one tensor is larger."""
    shards, size = [[]], 0
    for name, shape in model_shapes.tensors_of(config):
        tensor_bytes = 2 * math.prod(shape)
        if shards[-1] and size + tensor_bytes > shard_bytes:
            shards.append([])
            size = 0
        shards[-1].append((name, shape))
        size += tensor_bytes
    return shards


def header_of(shard):
    """The bytes before a safetensors file's data; data starts at a multiple of 8."""
    entries, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in shard:
        end = offset + 2 * math.prod(shape)
        entries[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text, offset


def write_all(file, data, offset):
    view = memoryview(data).cast("B")
    while view:
        written = os.pwrite(file, view, offset)
        view, offset = view[written:], offset + written


def write_piece(file, offset, count, table, seed):
    generator = np.random.Generator(np.random.SFC64(seed))
    words = generator.integers(0, 2**64 - 1, size=(count + 3) // 4, dtype=np.uint64, endpoint=True)
    write_all(file, np.take(table, words.view(np.uint16)[:count]), offset)


def pieces_of(shard, data_start, first_index, config, tables):
    """Arguments of write_piece for every tensor of a shard, less the file."""
    offset = data_start
    for index, (name, shape) in enumerate(shard, first_index):
        table = tables[scale_of(name, config)]
        for start in range(0, math.prod(shape), PIECE_ELEMENTS):
            count = min(PIECE_ELEMENTS, math.prod(shape) - start)
            yield offset + 2 * start, count, table, [index, start // PIECE_ELEMENTS]
        offset += 2 * math.prod(shape)


def write_shards(folder, config, shard_bytes, seed):
    """Writes the shards and, if there are several, their index; returns the bytes of tensors."""
    shards = shards_of(config, shard_bytes)
    names = (["model.safetensors"] if len(shards) == 1 else
             [f"model-{i + 1:05}-of-{len(shards):05}.safetensors" for i in range(len(shards))])
    normal = normal_table()
    kinds = {scale_of(name, config) for shard in shards for name, _ in shard}
    tables = {kind: to_bf16(kind[0] + kind[1] * normal) for kind in kinds}
    files, jobs, total, index = [], [], 0, 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for file_name, shard in zip(names, shards):
            header, data_bytes = header_of(shard)
            file = os.open(folder / file_name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
            files.append(file)
            write_all(file, header, 0)
            for offset, count, table, stream in pieces_of(shard, len(header), index, config,
                                                          tables):
                jobs.append(pool.submit(write_piece, file, offset, count, table, [seed, *stream]))
            total += data_bytes
            index += len(shard)
        for job in jobs:
            job.result()
    for file in files:
        os.close(file)
    if len(shards) > 1:
        weight_map = {name: file for file, shard in zip(names, shards) for name, _ in shard}
        (folder / "model.safetensors.index.json").write_text(json.dumps(
            {"metadata": {"total_size": total}, "weight_map": weight_map}, indent=1) + "\n")
    return total


def make(folder, config, shard_bytes=5 * 10**9, seed=0):
    """Writes config.json, generation_config.json and weights; returns the bytes of tensors."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("model*.safetensors*"):
        old.unlink()
    (folder / "config.json").unlink(missing_ok=True)
    total = write_shards(folder, config, shard_bytes, seed)
    ends = {key: config[key] for key in ("bos_token_id", "eos_token_id")}
    (folder / "generation_config.json").write_text(json.dumps(ends, indent=2) + "\n")
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")  # last: all is there
    return total


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", choices=sorted(model_shapes.SHAPES))
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--layers", type=int)
    parser.add_argument("--vocab", type=int)
    parser.add_argument("--shard-gb", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tokenizer", action="store_true",
                        help="add a tokenizer of single bytes, for `encore run`; only its 260 "
                             "tokens are then sampled")
    args = parser.parse_args()
    start = time.perf_counter()
    config = model_shapes.config_of(args.shape, args.layers, args.vocab)
    if args.tokenizer:
        config["bos_token_id"], config["eos_token_id"] = BYTE_TOKENIZER_ENDS
    total = make(args.folder, config, int(args.shard_gb * 1e9), args.seed)
    if args.tokenizer:
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(BYTE_TOKENIZER / name, args.folder / name)
    seconds = time.perf_counter() - start
    print(f"{args.folder}: {total / 1e9:.2f} GB of tensors in {seconds:.1f} s")


if __name__ == "__main__":
    main()
