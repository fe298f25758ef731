"""Writes data/: tiny models saved by transformers and by the gguf package, and what is in them.

  tiny_qwen3/   four shards of bfloat16, tied head, q/k norm, explicit head_dim
  tiny_llama/   one file of float32, untied head, biases
  tiny.gguf     a llama of mixed types
  expected.json for each, Encore's name of a tensor -> dtype, shape, its first and last bytes
  fuzz/         small inputs that the fuzzers start from

Needs torch, transformers and gguf; the result is committed.
"""

import json
import pathlib
import re
import shutil

import gguf
import numpy as np
import torch
from safetensors.torch import save_file
from transformers import (GenerationConfig, LlamaConfig, LlamaForCausalLM, Qwen3Config,
                          Qwen3ForCausalLM)

DATA = pathlib.Path(__file__).parent / "data"

PARTS = {
    "input_layernorm": "attention_norm", "self_attn.q_proj": "q", "self_attn.k_proj": "k",
    "self_attn.v_proj": "v", "self_attn.o_proj": "o", "self_attn.q_norm": "q_norm",
    "self_attn.k_norm": "k_norm", "post_attention_layernorm": "mlp_norm", "mlp.gate_proj": "gate",
    "mlp.up_proj": "up", "mlp.down_proj": "down",
}
DTYPES = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}


def encore_name(name):
    layer = re.fullmatch(r"model\.(layers\.\d+)\.(.+)\.(weight|bias)", name)
    if layer:
        return f"{layer[1]}.{PARTS[layer[2]]}.{layer[3]}"
    return {"model.embed_tokens.weight": "embed.weight", "model.norm.weight": "norm.weight",
            "lm_head.weight": "head.weight"}[name]


def describe(dtype, shape, data):
    return {"dtype": dtype, "shape": list(shape), "first": data[:8].hex(), "last": data[-8:].hex()}


def save_transformers(name, model, **options):
    folder = DATA / name
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder, **options)
    expected = {}
    for key, tensor in model.state_dict().items():
        if key == "lm_head.weight" and model.config.tie_word_embeddings:
            continue
        data = tensor.contiguous().view(torch.uint8).numpy().tobytes()
        expected[encore_name(key)] = describe(DTYPES[tensor.dtype], tensor.shape, data)
    return expected


def randomise(model):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape))


def make_qwen3():
    config = Qwen3Config(vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=2, head_dim=16,
                         max_position_embeddings=4096, rope_theta=1e6, tie_word_embeddings=True,
                         eos_token_id=2, dtype="bfloat16")
    model = Qwen3ForCausalLM(config).to(torch.bfloat16)
    randomise(model)
    model.generation_config = GenerationConfig(eos_token_id=[2, 5], do_sample=True, temperature=0.6,
                                               top_k=20, top_p=0.95)
    return save_transformers("tiny_qwen3", model, max_shard_size="16KB")


def make_llama():
    config = LlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=1,
                         num_attention_heads=4, num_key_value_heads=4, attention_bias=True,
                         mlp_bias=True, max_position_embeddings=2048, rms_norm_eps=1e-5,
                         eos_token_id=3)
    model = LlamaForCausalLM(config)
    randomise(model)
    return save_transformers("tiny_llama", model)


def make_gguf():
    hidden, inner, vocab = 256, 32, 16
    writer = gguf.GGUFWriter(DATA / "tiny.gguf", "llama")
    writer.add_name("tiny")
    writer.add_block_count(1)
    writer.add_context_length(2048)
    writer.add_embedding_length(hidden)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(2)
    writer.add_head_count_kv(1)
    writer.add_key_length(32)
    writer.add_value_length(32)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(vocab)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list([f"t{i}" for i in range(vocab)])
    writer.add_eos_token_id(7)
    writer.add_bos_token_id(1)
    writer.add_chat_template("{{ messages[0].content }}")
    types = gguf.GGMLQuantizationType
    tensors = [
        ("token_embd", "embed", (vocab, hidden), types.Q8_0),
        ("output", "head", (vocab, hidden), types.F16),
        ("output_norm", "norm", (hidden,), types.F32),
        ("blk.0.attn_norm", "layers.0.attention_norm", (hidden,), types.F32),
        ("blk.0.ffn_norm", "layers.0.mlp_norm", (hidden,), types.F32),
        ("blk.0.attn_q", "layers.0.q", (64, hidden), types.Q5_K),
        ("blk.0.attn_k", "layers.0.k", (32, hidden), types.Q4_1),
        ("blk.0.attn_v", "layers.0.v", (32, hidden), types.BF16),
        ("blk.0.attn_output", "layers.0.o", (hidden, 64), types.Q4_0),
        ("blk.0.ffn_gate", "layers.0.gate", (inner, hidden), types.Q4_K),
        ("blk.0.ffn_up", "layers.0.up", (inner, hidden), types.Q6_K),
        ("blk.0.ffn_down", "layers.0.down", (hidden, inner), types.F16),
    ]
    random = np.random.default_rng(7)
    expected = {}
    for stored, name, shape, kind in tensors:
        # Any bytes will do: only their place is tested.
        data = random.integers(0, 256, gguf.quant_shape_to_byte_shape(shape, kind), dtype=np.uint8)
        writer.add_tensor(f"{stored}.weight", data, raw_dtype=kind)
        expected[f"{name}.weight"] = describe(kind.name.lower(), shape, data.tobytes())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return expected


def make_fuzz_gguf(path, architecture):
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(1)
    writer.add_context_length(64)
    writer.add_embedding_length(4)
    writer.add_feed_forward_length(4)
    writer.add_head_count(2)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    writer.add_rope_scaling_factor(4.0)
    writer.add_rope_scaling_orig_ctx_len(32)
    writer.add_token_list(["a", "b"])
    writer.add_token_types([1, 3])
    writer.add_eos_token_id(1)
    writer.add_chat_template("x")
    vector, square = np.zeros(4, np.float32), np.zeros((4, 4), np.float32)
    half = np.zeros((2, 4), np.float32)
    writer.add_tensor("token_embd.weight", half)
    writer.add_tensor("output_norm.weight", vector)
    for name in ("attn_norm", "ffn_norm"):
        writer.add_tensor(f"blk.0.{name}.weight", vector)
    for name in ("attn_q", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
        writer.add_tensor(f"blk.0.{name}.weight", square)
    for name in ("attn_k", "attn_v"):
        writer.add_tensor(f"blk.0.{name}.weight", half)
    if architecture == "qwen3":
        for name in ("attn_q_norm", "attn_k_norm"):
            writer.add_tensor(f"blk.0.{name}.weight", vector[:2])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def make_fuzz_inputs():
    for folder in ("gguf", "safetensors"):
        (DATA / "fuzz" / folder).mkdir(parents=True, exist_ok=True)
    for architecture in ("llama", "qwen3"):
        make_fuzz_gguf(DATA / "fuzz" / "gguf" / f"{architecture}.gguf", architecture)
    folder = DATA / "fuzz" / "safetensors"
    save_file({"a": torch.zeros(2, 3), "b": torch.zeros(1, dtype=torch.bfloat16)},
              folder / "two.safetensors", metadata={"format": "pt"})
    for table in json.loads((DATA / "rope_tables.json").read_text()):
        if table["name"] in ("linear", "llama3", "yarn_mscale", "default_new_layout"):
            (folder / f"{table['name']}.json").write_text(json.dumps(table["config"]))
    for name in ("tiny_qwen3", "tiny_llama"):
        shutil.copy(DATA / name / "config.json", folder / f"{name}.json")


def main():
    torch.manual_seed(1)
    expected = {"tiny_qwen3": make_qwen3(), "tiny_llama": make_llama(), "tiny.gguf": make_gguf()}
    make_fuzz_inputs()
    (DATA / "expected.json").write_text(json.dumps(expected, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
