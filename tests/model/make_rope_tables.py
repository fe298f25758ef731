"""Writes data/rope_tables.json: RoPE tables as transformers computes them.

Each entry holds a config.json as a checkpoint would ship it and the table that
LlamaRotaryEmbedding builds from it. Needs torch and transformers; the result is committed.
"""

import copy
import json
import pathlib

from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

BASE = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 128,
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 8192,
}

LLAMA31 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
           "original_max_position_embeddings": 8192}
LLAMA32 = {**LLAMA31, "factor": 32.0}
YARN = {"factor": 4.0, "original_max_position_embeddings": 32768}

CASES = {
    "default": {},
    "default_theta": {"rope_theta": 500000.0, "head_dim": 128},
    "default_new_layout": {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}},
    "null_scaling": {"rope_theta": 100000.0, "rope_scaling": None},
    "explicit_head_dim": {"head_dim": 32, "rope_theta": 1e6},
    "linear": {"rope_scaling": {"type": "linear", "factor": 4.0}},
    "linear_new_layout": {
        "rope_parameters": {"rope_type": "linear", "factor": 2.5, "rope_theta": 20000.0}},
    "dynamic": {"rope_scaling": {"type": "dynamic", "factor": 2.0}},
    "llama3": {"rope_theta": 500000.0, "head_dim": 128, "max_position_embeddings": 131072,
               "rope_scaling": {"rope_type": "llama3", **LLAMA31}},
    "llama3_small_head": {"rope_theta": 500000.0, "max_position_embeddings": 131072,
                          "rope_scaling": {"rope_type": "llama3", **LLAMA32}},
    "llama3_new_layout": {"head_dim": 128, "max_position_embeddings": 131072,
                          "rope_parameters": {"rope_type": "llama3", "rope_theta": 500000.0,
                                              **LLAMA32}},
    "yarn": {"rope_theta": 1e6, "head_dim": 128, "max_position_embeddings": 32768,
             "rope_scaling": {"type": "yarn", **YARN}},
    "yarn_both_names": {"rope_theta": 1e6, "max_position_embeddings": 131072,
                        "rope_scaling": {"type": "yarn", "rope_type": "yarn", **YARN}},
    "yarn_new_layout": {"max_position_embeddings": 131072,
                        "rope_parameters": {"rope_type": "yarn", "rope_theta": 10000.0,
                                            "factor": 40.0, "beta_fast": 16.0, "beta_slow": 2.0,
                                            "original_max_position_embeddings": 4096}},
    "yarn_mscale": {"rope_scaling": {"rope_type": "yarn", "factor": 40.0, "mscale": 0.707,
                                     "mscale_all_dim": 1.0,
                                     "original_max_position_embeddings": 4096}},
    "yarn_attention_factor": {"rope_scaling": {"rope_type": "yarn", "factor": 8.0,
                                               "attention_factor": 1.25,
                                               "original_max_position_embeddings": 1024}},
    "yarn_not_truncated": {"rope_scaling": {"rope_type": "yarn", "factor": 32.0, "truncate": False,
                                            "original_max_position_embeddings": 4096}},
}


def main():
    tables = []
    for name, changes in CASES.items():
        config = {**copy.deepcopy(BASE), **copy.deepcopy(changes)}
        rotary = LlamaRotaryEmbedding(LlamaConfig.from_dict(copy.deepcopy(config)))
        tables.append({
            "name": name,
            "config": config,
            "attention_scale": float(rotary.attention_scaling),
            "inv_freq": [float(f"{value:.9g}") for value in rotary.inv_freq.tolist()],
        })
    path = pathlib.Path(__file__).parent / "data" / "rope_tables.json"
    lines = ",\n".join(json.dumps(table) for table in tables)
    path.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
