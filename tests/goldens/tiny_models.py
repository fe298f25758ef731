"""Small random models as safetensors and GGUF, with goldens.

Weights are drawn with a large deviation so that logits are spread and attention is far from
uniform; a model whose logits are all alike would pass any test.
"""

import copy
import json

import torch
import transformers
from gguf import GGMLQuantizationType
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, MistralConfig,
                          MistralForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config,
                          Qwen3ForCausalLM)

from reference import all_logits, rounded, run_case, write_json
from tiny_gguf import read_gguf, write_gguf

VOCAB = 260  # 256 bytes, then <bos> <eos> <unk> <pad>; not a multiple of 8, so tails are covered
SHAPE = {"vocab_size": VOCAB, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512,
         "bos_token_id": 256, "eos_token_id": 257, "pad_token_id": 259}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 2048}
LINEAR = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}

# name -> (model class, configuration, dtype, seed, style of config.json, shard size)
# Style 4 writes rope_theta, rope_scaling and torch_dtype, as nearly all published models do;
# style 5 keeps what transformers 5 saves (rope_parameters, dtype).
TINY = {
    "tiny_llama": (LlamaForCausalLM, LlamaConfig(**SHAPE, rope_parameters={
        "rope_type": "default", "rope_theta": 10000.0}), torch.bfloat16, 11, 4, None),
    "tiny_llama_tied_llama3": (LlamaForCausalLM, LlamaConfig(
        **{**SHAPE, "max_position_embeddings": 16384}, tie_word_embeddings=True,
        rope_parameters=LLAMA3), torch.float32, 12, 4, None),
    "tiny_llama_linear": (LlamaForCausalLM, LlamaConfig(**SHAPE, rope_parameters=LINEAR),
                          torch.float16, 13, 5, None),
    "tiny_qwen2": (Qwen2ForCausalLM, Qwen2Config(
        **SHAPE, tie_word_embeddings=True, use_sliding_window=False, rope_parameters={
            "rope_type": "default", "rope_theta": 1000000.0}), torch.bfloat16, 14, 4, None),
    "tiny_qwen3": (Qwen3ForCausalLM, Qwen3Config(
        **SHAPE, head_dim=32, use_sliding_window=False, rope_parameters={
            "rope_type": "default", "rope_theta": 1000000.0}), torch.bfloat16, 15, 5, None),
    "tiny_mistral": (MistralForCausalLM, MistralConfig(**SHAPE, sliding_window=None,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0}),
        torch.bfloat16, 16, 4, None),
    "tiny_llama_sharded": (LlamaForCausalLM, LlamaConfig(
        **{**SHAPE, "num_hidden_layers": 3}, rope_parameters={
            "rope_type": "default", "rope_theta": 500000.0}), torch.bfloat16, 17, 5, "100KB"),
}
GGUF_OF = ("tiny_llama", "tiny_qwen3")
GGUF_TYPES = {"f16": GGMLQuantizationType.F16, "q8_0": GGMLQuantizationType.Q8_0}
LONG_MODEL, LONG_TOKENS = "tiny_llama_tied_llama3", 9001


def randomise(model, seed):
    """Draws every parameter anew; the scale depends on what it multiplies."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        if name.endswith("norm.weight"):
            value = 1.0 + 0.2 * noise
        elif name.endswith("bias"):
            value = 0.5 * noise
        elif "embed_tokens" in name:
            value = 0.3 * noise
        elif "lm_head" in name:
            value = 0.4 * noise
        elif "q_proj" in name or "k_proj" in name:
            value = 0.2 * noise
        else:
            value = 0.25 * noise
        parameter.data.copy_(value)


def byte_tokenizer():
    """Byte-level BPE without merges: one token a byte, ids in GPT-2's order of byte letters."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {letter: i for i, letter in enumerate(letters)}
    tokenizer = Tokenizer(models.BPE(vocab, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<bos>", "<eos>", "<unk>", "<pad>"])
    return tokenizer


def rewrite_config(path):
    """config.json as transformers 4 wrote it."""
    config = json.loads(path.read_text())
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    config["rope_scaling"] = None if rope["rope_type"] == "default" else rope
    config["torch_dtype"] = config.pop("dtype")
    config["transformers_version"] = "4.46.0"
    path.write_text(json.dumps(config, indent=2) + "\n")


def save(out_dir, name):
    """Writes one model's folder and returns the path."""
    model_class, config, dtype, seed, style, shard_size = TINY[name]
    folder = out_dir / "models" / name
    model = model_class(config)
    randomise(model, seed)
    model = model.to(dtype)
    model.save_pretrained(folder, max_shard_size=shard_size or "1GB")
    for path in folder.iterdir():
        path.chmod(0o644)
    if style == 4:
        rewrite_config(folder / "config.json")
    if shard_size is None:  # the sharded model shows that a tokenizer is not needed to load
        byte_tokenizer().save(str(folder / "tokenizer.json"))
        (folder / "tokenizer_config.json").write_text(json.dumps({
            "bos_token": "<bos>", "eos_token": "<eos>", "unk_token": "<unk>",
            "pad_token": "<pad>", "add_bos_token": False,
            "tokenizer_class": "PreTrainedTokenizerFast"}, indent=2) + "\n")
    return folder


def prompts(seed):
    generator = torch.Generator().manual_seed(1000 + seed)
    draw = lambda n: torch.randint(0, 256, (n,), generator=generator).tolist()
    return [("one_token", draw(1)), ("short", draw(23)), ("long", draw(64))]


def describe_row(row):
    return {"logits": rounded(row, 4)}


def write_golden(out_dir, name, file_name, model, seed):
    cases = []
    model64 = copy.deepcopy(model).double()
    for case_name, ids in prompts(seed):
        last = len(ids) - 1
        positions = sorted({0, min(1, last), min(17, last), last, last + 63})
        cases.append(run_case(model, model64, case_name, ids, describe_row, positions))
        print(name, case_name, cases[-1]["min_top2_gap"], cases[-1]["float32_error"],
              len(set(cases[-1]["greedy_ids"])))
    write_json(out_dir / f"{name}.json", {
        "model": file_name,
        "reference": f"transformers {transformers.__version__}, torch "
                     f"{torch.__version__.split('+')[0]}, float32, CPU, eager attention",
        "vocab_size": VOCAB,
        "cases": cases,
    })


def load(folder, **kwargs):
    return AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", **kwargs).eval()


def write_long_golden(out_dir, folder):
    """Logits at positions 5 and 9000 of one sequence, where a missing RoPE scaling shows."""
    ids = [(i * i + 7 * i) % 251 for i in range(LONG_TOKENS)]
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32,
                                                 attn_implementation="sdpa").eval()
    logits = all_logits(model, ids)
    write_json(out_dir / "rope_long.json", {
        "model": f"models/{folder.name}",
        "prompt_formula": "id[i] = (i * i + 7 * i) % 251",
        "num_tokens": LONG_TOKENS,
        "cases": [{"position": p, "logits": rounded(logits[p], 4)} for p in (5, 9000)],
    })


def make(out_dir):
    for name, (_, config, _, seed, _, _) in TINY.items():
        folder = save(out_dir, name)
        model = load(folder)
        write_golden(out_dir, name, f"models/{name}", model, seed)
        if name == LONG_MODEL:
            write_long_golden(out_dir, folder)
        for suffix, quant in (GGUF_TYPES.items() if name in GGUF_OF else ()):
            path = out_dir / "models" / f"{name}.{suffix}.gguf"
            write_gguf(path, model, byte_tokenizer(), quant)
            from_gguf = read_gguf(path, model)
            write_golden(out_dir, f"{name}_{suffix}", f"models/{path.name}", from_gguf, seed)
            ids = prompts(seed)[2][1]
            a, b = all_logits(model, ids), all_logits(from_gguf, ids)
            for p in (0, 1, 17, 63):
                cosine = float(torch.cosine_similarity(a[p], b[p], dim=0))
                assert cosine > 0.998, (path.name, p, cosine)
