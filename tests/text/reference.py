"""The tokenizers under test, as the `tokenizers` library has them, and the probe that answers."""

import json
import lzma
import os
import struct
import subprocess
import tempfile

NAMES = ["deepseek_v3", "gemma3", "llama2", "llama3_1", "qwen3", "smollm2"]
SMOLLM2_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


def read_maybe_xz(path):
    """The bytes of `path` or of `path`.xz; None if there is neither."""
    if os.path.exists(path):
        with open(path, "rb") as file:
            return file.read()
    if os.path.exists(path + ".xz"):
        with lzma.open(path + ".xz") as file:
            return file.read()
    return None


def is_control(token):
    """Encore's rule for tokens that text must not become (AddedToken::is_control)."""
    text = token["content"]
    return (
        token["special"]
        or (text.startswith("<|") and text.endswith("|>") and len(text) > 4)
        or (text.startswith("<\uff5c") and text.endswith("\uff5c>") and len(text) > 4)
    )


def smollm2_json(gguf_path):
    """SmolLM2's GGUF keys as tokenizer.json, with the pre-tokenizer of its published file."""
    import gguf

    fields = gguf.GGUFReader(gguf_path).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    types = fields["tokenizer.ggml.token_type"].contents()
    merges = fields["tokenizer.ggml.merges"].contents()
    special = dict(single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
    added = [dict(special, id=i, content=tokens[i]) for i, t in enumerate(types) if t == 3]
    byte_level = dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=True)
    digits = dict(type="Digits", individual_digits=True)
    model = dict(
        type="BPE", dropout=None, unk_token=None, continuing_subword_prefix=None,
        end_of_word_suffix=None, fuse_unk=False, byte_fallback=False, ignore_merges=False,
        vocab={t: i for i, t in enumerate(tokens)}, merges=merges)
    return dict(
        version="1.0", truncation=None, padding=None, added_tokens=added, normalizer=None,
        pre_tokenizer=dict(type="Sequence", pretokenizers=[digits, byte_level]),
        post_processor=None, decoder=byte_level, model=model)


class Case:
    """One tokenizer: what the probe loads, and the reference with control tokens on and off."""

    def __init__(self, name, data, models):
        import tokenizers

        self.name = name
        self.directory = tempfile.TemporaryDirectory()
        if name == "smollm2":
            path = os.path.join(models or "", SMOLLM2_FILE)
            if not os.path.exists(path):
                raise FileNotFoundError(f"{path} (set ENCORE_TEST_MODELS)")
            content = smollm2_json(path)
            self.arguments = ["gguf", path]
        else:
            folder = os.path.join(data or "", "tokenizers", name)
            raw = read_maybe_xz(os.path.join(folder, "tokenizer.json"))
            if raw is None:
                raise FileNotFoundError(f"{folder}/tokenizer.json (set ENCORE_TEST_DATA)")
            content = json.loads(raw)
            path = os.path.join(self.directory.name, "tokenizer.json")
            with open(path, "wb") as file:
                file.write(raw)
            self.arguments = ["json", path]
        self.parsing = tokenizers.Tokenizer.from_str(json.dumps(content))
        self.added = [token["content"] for token in content["added_tokens"]]
        for token in content["added_tokens"]:
            token["special"] = is_control(token)
        self.literal = tokenizers.Tokenizer.from_str(json.dumps(content))
        self.literal.encode_special_tokens = True


class Probe:
    """A running tokenizer_probe."""

    def __init__(self, binary, case):
        self.process = subprocess.Popen(
            [binary] + case.arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def _ask(self, op, flags, payload, size):
        self.process.stdin.write(struct.pack("<cBI", op, flags, len(payload)) + payload)
        self.process.stdin.flush()
        count = struct.unpack("<i", self.process.stdout.read(4))[0]
        if count < 0:
            count = struct.unpack("<i", self.process.stdout.read(4))[0]
            raise RuntimeError(self.process.stdout.read(count).decode())
        return self.process.stdout.read(count * size)

    def encode(self, data, add_special=False, parse_special=False):
        flags = int(add_special) + 2 * int(parse_special)
        answer = self._ask(b"e", flags, data, 4)
        return list(struct.unpack(f"<{len(answer) // 4}i", answer))

    def decode(self, ids, skip_special=False, stream=False):
        payload = struct.pack(f"<{len(ids)}i", *ids)
        return self._ask(b"s" if stream else b"d", int(skip_special), payload, 1)

    def close(self):
        self.process.stdin.close()
        self.process.wait()
