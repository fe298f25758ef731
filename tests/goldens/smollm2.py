"""Golden of SmolLM2-135M-Instruct, weights dequantised from the Q4_1 GGUF to float32."""

import copy
import hashlib

import torch
import transformers
from gguf import GGUFReader
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM

from reference import rounded, run_case, write_json

FILE_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
PROBES = 512
TOP = 50

CODE = '''def binary_search(items, target):
    """Return the index of target in a sorted list, or -1."""
    low, high = 0, len(items) - 1
    while low <= high:
        mid = (low + high) // 2
        if items[mid]'''
LONG = """The lighthouse at the end of the bay was built in 1874, after three ships were lost in one \
winter. Its keeper lived there with his family, and each evening he climbed one hundred and twelve \
steps to light the lamp. The work was plain but could not be skipped: the wick had to be trimmed, \
the glass polished, the clockwork wound, and the oil carried up by hand. In the log he wrote the \
wind, the sea and the names of passing vessels. When electricity came in 1931 the lamp was \
replaced, and twenty years later the last keeper left. The tower stood empty until a group of \
people from the village formed a society, raised the money for a new roof, and opened a small \
museum on the ground floor. Visitors may now see the old lens, read the log books and, on clear \
days, look across the water to the islands. Asked what she liked best about the place, the \
society's first president said"""
CHAT = ("<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
        "<|im_end|>\n<|im_start|>user\nName three primary colours and one thing of each colour."
        "<|im_end|>\n<|im_start|>assistant\n")
PROMPTS = [
    ("prose", "Once upon a time, in a small village by the sea, there lived"),
    ("code", CODE),
    ("numbers", "Squares: 1, 4, 9, 16, 25, 36, 49, 64, 81, 100. In 2024, 3.14159 * 2 = 6.28318;"),
    ("french_german", "La capitale de la France est Paris. Die Hauptstadt von Deutschland ist"),
    ("scripts", "English, 中文, русский, العربية, हिन्दी, 日本語 and 🙂 are"),
    ("chat", CHAT),
    ("one_token", "The"),
    ("long", LONG),
]


def tokenizer_from_gguf(reader):
    """SmolLM2's tokenizer: GPT-2 byte-level BPE that first splits off every single digit."""
    tokens = reader.get_field("tokenizer.ggml.tokens").contents()
    types = reader.get_field("tokenizer.ggml.token_type").contents()
    merges = [tuple(m.split(" ")) for m in reader.get_field("tokenizer.ggml.merges").contents()]
    tokenizer = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
    ])
    tokenizer.decoder = decoders.ByteLevel()
    control = [t for t, kind in zip(tokens, types) if kind == 3]
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in control])
    return tokenizer


def describe_row(probe_ids):
    def describe(row):
        top = row.topk(TOP)
        return {
            "logsumexp": round(float(row.double().logsumexp(-1)), 5),
            "top_ids": top.indices.tolist(),
            "top_logits": rounded(top.values),
            "probe_logits": rounded(row[probe_ids], 4),
        }
    return describe


def make(gguf_path, out_dir):
    tokenizer = tokenizer_from_gguf(GGUFReader(gguf_path))
    model = AutoModelForCausalLM.from_pretrained(
        gguf_path.parent, gguf_file=gguf_path.name, dtype=torch.float32,
        attn_implementation="eager").eval()
    model64 = copy.deepcopy(model).double()
    vocab = model.config.vocab_size
    probe_ids = [(i * 97) % vocab for i in range(PROBES)]
    cases = []
    for name, text in PROMPTS:
        ids = tokenizer.encode(text).ids
        last = len(ids) - 1
        positions = sorted({0, last // 2, last, last + 32, last + 63})
        case = run_case(model, model64, name, ids, describe_row(probe_ids), positions, text)
        print(name, len(ids), case["min_top2_gap"], case["float32_error"],
              repr(tokenizer.decode(case["greedy_ids"])[:90]))
        cases.append(case)
    write_json(out_dir / "smollm2.json", {
        "model": FILE_NAME,
        "sha256": hashlib.sha256(gguf_path.read_bytes()).hexdigest(),
        "reference": f"transformers {transformers.__version__}, torch "
                     f"{torch.__version__.split('+')[0]}, float32, CPU, eager attention",
        "vocab_size": vocab,
        "probe_ids": probe_ids,
        "cases": cases,
    })
