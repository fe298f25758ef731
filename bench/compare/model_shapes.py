"""Shapes of published models, as the config.json that their repositories carry, and their tensors.

Speed does not depend on what weights say, so that random ones of these shapes stand for the models.
"""

import copy

LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "attention_bias": False,
         "attention_dropout": 0.0, "bos_token_id": 128000, "eos_token_id": 128001,
         "hidden_act": "silu", "initializer_range": 0.02, "max_position_embeddings": 131072,
         "mlp_bias": False, "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_theta": 500000.0,
         "torch_dtype": "bfloat16", "use_cache": True, "vocab_size": 128256}
QWEN = {"attention_dropout": 0.0, "bos_token_id": 151643, "eos_token_id": 151645,
        "hidden_act": "silu", "initializer_range": 0.02, "rms_norm_eps": 1e-06,
        "rope_scaling": None, "rope_theta": 1000000.0, "sliding_window": None,
        "tie_word_embeddings": False, "torch_dtype": "bfloat16", "use_cache": True,
        "use_sliding_window": False}


def llama3_scaling(factor):
    return {"rope_type": "llama3", "factor": factor, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}


SHAPES = {
    "llama-3.1-8b": {
        **LLAMA, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
        "rope_scaling": llama3_scaling(8.0), "tie_word_embeddings": False},
    "llama-3.2-1b": {
        **LLAMA, "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
        "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64,
        "rope_scaling": llama3_scaling(32.0), "tie_word_embeddings": True},
    "qwen2.5-7b": {
        **QWEN, "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2",
        "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28,
        "num_attention_heads": 28, "num_key_value_heads": 4, "max_window_layers": 28,
        "max_position_embeddings": 32768, "vocab_size": 152064},
    "qwen3-8b": {
        **QWEN, "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3",
        "attention_bias": False, "hidden_size": 4096, "intermediate_size": 12288,
        "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8,
        "head_dim": 128, "max_window_layers": 36, "max_position_embeddings": 40960,
        "vocab_size": 151936},
}


def config_of(name, layers=None, vocab=None):
    """The configuration of a shape, with fewer layers or a cut vocabulary if asked."""
    config = copy.deepcopy(SHAPES[name])
    if layers is not None:
        config["num_hidden_layers"] = layers
        if "max_window_layers" in config:
            config["max_window_layers"] = layers
    if vocab is not None:
        config["vocab_size"] = vocab
        config["bos_token_id"], config["eos_token_id"] = vocab - 2, vocab - 1
    return config


def layer_tensors(config):
    """Name and shape of each tensor of one layer, without the layer's prefix."""
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    head_dim = config.get("head_dim", hidden // config["num_attention_heads"])
    queries = config["num_attention_heads"] * head_dim
    keys = config["num_key_value_heads"] * head_dim
    yield "input_layernorm.weight", (hidden,)
    for name, rows in (("q_proj", queries), ("k_proj", keys), ("v_proj", keys)):
        yield f"self_attn.{name}.weight", (rows, hidden)
        if config["model_type"] == "qwen2":
            yield f"self_attn.{name}.bias", (rows,)
    if config["model_type"] == "qwen3":
        yield "self_attn.q_norm.weight", (head_dim,)
        yield "self_attn.k_norm.weight", (head_dim,)
    yield "self_attn.o_proj.weight", (hidden, queries)
    yield "post_attention_layernorm.weight", (hidden,)
    yield "mlp.gate_proj.weight", (inner, hidden)
    yield "mlp.up_proj.weight", (inner, hidden)
    yield "mlp.down_proj.weight", (hidden, inner)


def tensors_of(config):
    """Name and shape of every tensor of the checkpoint, in the order of the forward pass."""
    table = (config["vocab_size"], config["hidden_size"])
    yield "model.embed_tokens.weight", table
    for layer in range(config["num_hidden_layers"]):
        for name, shape in layer_tensors(config):
            yield f"model.layers.{layer}.{name}", shape
    yield "model.norm.weight", (config["hidden_size"],)
    if not config["tie_word_embeddings"]:
        yield "lm_head.weight", table
