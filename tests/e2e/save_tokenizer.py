"""save_tokenizer.py MODEL.gguf FOLDER: the model's tokenizer in the form that Hugging Face's
transformers load from a folder. Needs the packages gguf and tokenizers. For SmolLM2's kind alone:
byte-level BPE that first splits off every single digit."""

import json
import pathlib
import sys

from gguf import GGUFReader
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

reader = GGUFReader(sys.argv[1])
folder = pathlib.Path(sys.argv[2])


def field(name):
    return reader.get_field("tokenizer.ggml." + name).contents()


tokens = field("tokens")
merges = [tuple(merge.split(" ")) for merge in field("merges")]
control = [token for token, kind in zip(tokens, field("token_type")) if kind == 3]
tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
    pre_tokenizers.Digits(individual_digits=True),
    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
])
tokenizer.decoder = decoders.ByteLevel()
tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False)
                              for text in control])

folder.mkdir(parents=True, exist_ok=True)
tokenizer.save(str(folder / "tokenizer.json"))
(folder / "tokenizer_config.json").write_text(json.dumps({
    "tokenizer_class": "PreTrainedTokenizerFast", "eos_token": tokens[field("eos_token_id")]}))
