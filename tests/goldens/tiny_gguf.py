"""Writes a small Hugging Face model as GGUF, in llama.cpp's names and row order."""

import copy

import gguf
import numpy as np
import torch

BLOCK_NAMES = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}
TOP_NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def gguf_name(name):
    """`model.layers.3.mlp.up_proj.weight` → `blk.3.ffn_up.weight`."""
    stem, kind = name.rsplit(".", 1)
    if stem in TOP_NAMES:
        return f"{TOP_NAMES[stem]}.{kind}"
    _, _, layer, rest = stem.split(".", 3)
    return f"blk.{layer}.{BLOCK_NAMES[rest]}.{kind}"


def adjacent_pairs(weight, heads):
    """Reorders rows of each head from (all first halves, all second halves) to pairs."""
    rows, columns = weight.shape
    head_dim = rows // heads
    return weight.reshape(heads, 2, head_dim // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def half_split(weight, heads):
    """The inverse of `adjacent_pairs`."""
    rows, columns = weight.shape
    head_dim = rows // heads
    return weight.reshape(heads, head_dim // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def write_metadata(writer, config, tokenizer):
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_rope_dimension_count(head_dim)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    tokens = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([token for token, _ in tokens])
    writer.add_token_types([gguf.TokenType.NORMAL if i < 256 else gguf.TokenType.CONTROL
                            for _, i in tokens])
    writer.add_token_merges([])
    writer.add_bos_token_id(config.bos_token_id)
    writer.add_eos_token_id(config.eos_token_id)
    writer.add_add_bos_token(False)


def write_gguf(path, model, tokenizer, quant):
    """Matrices in `quant`, norms in F32; Llama's q and k rows go to adjacent-pair order."""
    config = model.config
    writer = gguf.GGUFWriter(path, config.model_type)
    writer.add_name(path.stem)
    write_metadata(writer, config, tokenizer)
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    for name, tensor in model.state_dict().items():
        target = gguf_name(name)
        values = tensor.float().numpy()
        kind = target.split(".")[-2]
        if config.model_type == "llama" and kind in heads:
            values = adjacent_pairs(values, heads[kind])
        if values.ndim == 1:
            writer.add_tensor(target, values.astype(np.float32))
        else:
            writer.add_tensor(target, gguf.quantize(np.ascontiguousarray(values), quant),
                              raw_dtype=quant)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def read_gguf(path, model):
    """A copy of `model` with the weights of `path`, dequantised to float32."""
    tensors = {t.name: t for t in gguf.GGUFReader(path).tensors}
    config = model.config
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    state = {}
    for name in model.state_dict():
        tensor = tensors[gguf_name(name)]
        values = gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        kind = tensor.name.split(".")[-2]
        if config.model_type == "llama" and kind in heads:
            values = half_split(values, heads[kind])
        state[name] = torch.from_numpy(np.ascontiguousarray(values))
    result = copy.deepcopy(model)
    result.load_state_dict(state)
    return result
