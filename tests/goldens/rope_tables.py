"""Frequency tables of every RoPE type that transformers knows, for the configuration reader."""

import json

import transformers
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

BASE = {"hidden_size": 2048, "num_attention_heads": 32, "head_dim": 64,
        "max_position_embeddings": 131072}
TYPES = {
    "linear": {"factor": 4.0},
    "dynamic": {"factor": 2.0},
    "yarn": {"factor": 4.0, "original_max_position_embeddings": 32768},
    "yarn_tuned": {"factor": 8.0, "original_max_position_embeddings": 4096, "beta_fast": 16.0,
                   "beta_slow": 2.0, "attention_factor": 1.25},
    "llama3": {"factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 8192},
}


def default_table(theta, dim):
    return [theta ** (-2.0 * i / dim) for i in range(dim // 2)]


def make(out_dir):
    theta = 500000.0
    cases = [{"name": "default", "rope_scaling": None, "attention_scale": 1.0,
              "inv_freq": [float(f"{v:.9g}") for v in default_table(theta, BASE["head_dim"])]}]
    for name, scaling in TYPES.items():
        kind = name.split("_")[0]
        config = LlamaConfig(**BASE, rope_parameters={"rope_type": kind, "rope_theta": theta,
                                                      **scaling})
        inv_freq, scale = ROPE_INIT_FUNCTIONS[kind](config, device="cpu")
        cases.append({"name": name, "rope_scaling": {"rope_type": kind, **scaling},
                      "attention_scale": round(float(scale), 7),
                      "inv_freq": [float(f"{float(v):.9g}") for v in inv_freq]})
    lines = ",\n    ".join(json.dumps(c) for c in cases)
    head = json.dumps({"reference": f"transformers {transformers.__version__}",
                       "rope_theta": theta, **BASE})[1:-1]
    (out_dir / "rope_tables.json").write_text(
        "{\n  " + head + ',\n  "cases": [\n    ' + lines + "\n  ]\n}\n")
