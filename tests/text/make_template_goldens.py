"""Writes goldens/chat_templates.json: conversations, and what transformers makes of them.

    python make_template_goldens.py

Needs `transformers`, ENCORE_TEST_DATA and ENCORE_TEST_MODELS. Each case has the messages as a client
may send them, and the prompt of the same messages in the form that the template takes, rendered and
tokenized by transformers. Templates themselves stay in the tokenizers' folders.
"""

import json
import os
import tempfile

from reference import NAMES, SMOLLM2_FILE, read_maybe_xz, smollm2_json

from transformers import AutoTokenizer, PreTrainedTokenizerFast
from transformers.utils.chat_template_utils import _compile_jinja_template

USER = {"role": "user", "content": "What is 2 + 2?"}
SYSTEM = {"role": "system", "content": "  Be brief.\n"}
REPLY = {"role": "assistant", "content": "4"}
TOOL = {"type": "function", "function": {
    "name": "get_weather", "description": "Says \"sunny\" & more: <été>",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}
CITY = {"city": "Zürich"}


def call(arguments):
    return [{"id": "callid000", "type": "function",
             "function": {"name": "get_weather", "arguments": arguments}}]


def conversations(name):
    """(case, what a client sends, what transformers is given, keyword arguments)."""
    cases = [
        ("no_system", [USER], [USER], {}),
        ("system", [SYSTEM, USER], [SYSTEM, USER], {}),
        ("long", [USER, REPLY, USER], [USER, REPLY, USER], {}),
        ("no_header", [USER, REPLY], [USER, REPLY], {"add_generation_prompt": False}),
        ("spaces", [dict(USER, content="  a\n\n b \t")], [dict(USER, content="  a\n\n b \t")], {}),
        ("unicode", [dict(USER, content="聪 👨‍👩‍👧 e\u0301 \u0000")], None, {}),
        ("empty_calls", [USER, dict(REPLY, tool_calls=[]), USER], [USER, REPLY, USER], {}),
        ("null_content", [dict(USER, content=None)], [dict(USER, content="")], {}),
    ]
    parts = dict(USER, content=[{"type": "text", "text": "one"}, {"type": "text", "text": "two"}])
    joined = parts if name == "gemma3" else dict(USER, content="one\ntwo")
    cases.append(("parts", [parts], [joined], {}))
    if name in ("llama3_1", "qwen3"):
        cases.append(("tools", [SYSTEM, USER], [SYSTEM, USER], {"tools": [TOOL]}))
    if name in ("llama3_1", "qwen3", "deepseek_v3"):
        result = {"role": "tool", "content": "sunny", "tool_call_id": "callid000"}
        given = json.dumps(CITY) if name == "deepseek_v3" else CITY
        sent = [USER, {"role": "assistant", "content": None, "tool_calls": call(json.dumps(CITY))},
                result]
        nothing = None if name == "deepseek_v3" else ""  # the others fail on null or print "None"
        form = [USER, {"role": "assistant", "content": nothing, "tool_calls": call(given)}, result]
        cases.append(("call", sent, form, {}))
    if name == "qwen3":
        cases.append(("no_thinking", [USER], [USER], {"enable_thinking": False}))
    return [(case, sent, form or sent, extra) for case, sent, form, extra in cases]


def load(name, folder):
    if name == "smollm2":
        import gguf
        import tokenizers

        path = os.path.join(os.environ["ENCORE_TEST_MODELS"], SMOLLM2_FILE)
        fields = gguf.GGUFReader(path).fields
        raw = tokenizers.Tokenizer.from_str(json.dumps(smollm2_json(path)))
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw)
        tokenizer.chat_template = fields["tokenizer.chat_template"].contents()
        return tokenizer
    source = os.path.join(os.environ["ENCORE_TEST_DATA"], "tokenizers", name)
    for file_name in ("tokenizer.json", "tokenizer_config.json"):
        with open(os.path.join(folder, file_name), "wb") as file:
            file.write(read_maybe_xz(os.path.join(source, file_name)))
    return AutoTokenizer.from_pretrained(folder)


def main():
    goldens = {}
    for name in NAMES:
        with tempfile.TemporaryDirectory() as folder:
            tokenizer = load(name, folder)
        if not tokenizer.chat_template:
            continue
        cases = goldens[name] = []
        for case, sent, form, extra in conversations(name):
            arguments = dict(add_generation_prompt=True)
            arguments.update(extra)
            if case == "call" and name == "deepseek_v3":
                # Null content, which transformers 5 leaves out and templates ask for.
                text = _compile_jinja_template(tokenizer.chat_template).render(
                    messages=form, **arguments, **tokenizer.special_tokens_map)
                ids = tokenizer(text, add_special_tokens=False).input_ids
            else:
                text = tokenizer.apply_chat_template(form, tokenize=False, **arguments)
                ids = tokenizer.apply_chat_template(form, return_dict=False, **arguments)
            reply = arguments.pop("add_generation_prompt")
            tools = arguments.pop("tools", None)
            cases.append(dict(case=case, messages=sent, tools=tools, reply=reply,
                              variables=arguments, text=text, ids=ids))
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "goldens/chat_templates.json")
    with open(path, "w") as file:
        file.write("{\n")
        for i, (name, cases) in enumerate(goldens.items()):
            lines = ",\n  ".join(json.dumps(case) for case in cases)
            file.write(f'"{name}": [\n  {lines}]' + (",\n" if i + 1 < len(goldens) else "\n"))
        file.write("}\n")
    print({name: len(cases) for name, cases in goldens.items()})


if __name__ == "__main__":
    main()
