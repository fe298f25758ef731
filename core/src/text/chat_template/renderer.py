"""Renders chat templates with Jinja2, as Hugging Face transformers does, and keeps what the template
wrote apart from what others wrote into it.

Policy. A control token counts only where the template itself spells it. Before compiling, each
control token in the template's text and string constants is replaced by one private-use character,
chosen so that no input of the render contains it; afterwards those characters, and nothing else, are
control tokens. Text of messages, tools and extra variables cannot forge one, whatever templates do
with it (trim, slice, join with markup): all it can spell is text. As a consequence a template that
looks for control tokens inside content does not find them.

Some templates build tokens from parts ('<|' + role + '|>'). Those tokens are found when the template
is created, by rendering harmless conversations; for them alone, the token's text counts too, except
where an input spells it whole.

A template comes with a model, from anybody: the sandbox keeps it from Python, and it may compute
neither without end (time_limit) nor with endless numbers (Sandbox).
"""

import contextlib
import datetime
import json
import re
import threading

import jinja2
import jinja2.ext
import jinja2.utils
from jinja2 import nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

PRIVATE_USE = re.compile("[\U000f0000-\U0010ffff]")
MARKS_FIRST, MARKS_LAST, MARKS_PER_TEMPLATE = 0xF0000, 0x10FFFD, 2048
REASONING_NAMES = ("reasoning_content", "thinking", "reasoning")  # the first is what templates read
FIXED_NAMES = ("messages", "tools", "documents", "add_generation_prompt")
MAX_NUMBER_BITS = 4096


class Refusal(Exception):
    """Bad input or a failed template; the message is for the one who asked."""


class Raised(jinja2.TemplateError):
    """The template called raise_exception."""


class TooLong(BaseException):
    """Raised in a thread that is still rendering at the end of its time. No `except Exception` of a
    template's machinery catches it."""


@contextlib.contextmanager
def time_limit(seconds):
    """Ends the block with TooLong. One operation of Python is never interrupted."""
    thread = threading.get_ident()
    lock = threading.Lock()
    done = False

    def end():
        with lock:
            if not done:
                raise_in_thread(thread, TooLong)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        with lock:
            done = True
        timer.cancel()  # a call, before which TooLong comes if it was sent


class GenerationTag(jinja2.ext.Extension):
    """{% generation %}...{% endgeneration %}: renders its body. Training uses it to find replies."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_render"), [], [], body).set_lineno(line)

    def _render(self, caller):
        return caller()


class SafeNamespace(jinja2.utils.Namespace):
    """A namespace that refuses names which could reach into Python."""

    def __init__(*arguments, **attributes):
        self, *rest = arguments
        attributes = dict(*rest, **attributes)
        for name in attributes:
            SafeNamespace.check(name)
        jinja2.utils.Namespace.__init__(self, attributes)

    def __setitem__(self, name, value):
        SafeNamespace.check(name)
        super().__setitem__(name, value)

    @staticmethod
    def check(name):
        if isinstance(name, str) and name.startswith("_"):
            raise jinja2.exceptions.SecurityError(f"a namespace cannot hold the name {name!r}")


class SafeDict:
    """dict() without dict's own attributes."""

    def __call__(self, *arguments, **items):
        return dict(*arguments, **items)

    def fromkeys(self, *arguments):
        return dict.fromkeys(*arguments)


def raise_exception(message):
    raise Raised(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)


def strftime_now(form):
    return datetime.datetime.now().strftime(form)


class Sandbox(ImmutableSandboxedEnvironment):
    """Refuses the numbers with which one operation of Python could go on for ever."""

    intercepted_binops = frozenset(("*", "**"))

    def call_binop(self, context, operator, left, right):
        if isinstance(left, int) and isinstance(right, int):
            bits = left.bit_length() * right if operator == "**" else (
                left.bit_length() + right.bit_length())
            if bits > MAX_NUMBER_BITS:
                raise jinja2.exceptions.SecurityError(
                    f"a number of more than {MAX_NUMBER_BITS} bits")
        return super().call_binop(context, operator, left, right)


def make_environment():
    environment = Sandbox(
        trim_blocks=True, lstrip_blocks=True,
        extensions=[GenerationTag, jinja2.ext.loopcontrols])
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = strftime_now
    environment.globals["dict"] = SafeDict()
    environment.globals["namespace"] = SafeNamespace
    return environment


def map_strings(value, change):
    """`value` with every string in it, keys too, passed through `change`."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [map_strings(item, change) for item in value]
    if isinstance(value, dict):
        return {change(key): map_strings(item, change) for key, item in value.items()}
    return value


def whole_characters(text):
    """Lone surrogates, which JSON can escape, become U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def alternatives(texts):
    """A pattern that matches any of `texts`, the longest first."""
    return "|".join(re.escape(text) for text in sorted(texts, key=len, reverse=True))


class Compiled:
    """The template with its control tokens marked by characters from `first` on."""

    def __init__(self, environment, source, control, first):
        self.tokens = {}  # mark -> control token
        self.marks = {}  # control token -> mark
        self.first = self.next = first
        self.control = re.compile(alternatives(control)) if control else None
        tree = environment.parse(source)
        for node in tree.find_all(nodes.TemplateData):
            node.data = self.mark(node.data)
        for node in tree.find_all(nodes.Const):
            if isinstance(node.value, str):
                node.value = self.mark(node.value)
        self.template = environment.template_class.from_code(
            environment, environment.compile(tree), environment.make_globals(None))

    def new_mark(self):
        if self.next - self.first >= MARKS_PER_TEMPLATE:
            raise Refusal(f"the chat template has over {MARKS_PER_TEMPLATE} control tokens")
        self.next += 1
        return chr(self.next - 1)

    def mark(self, text):
        if self.control is None:
            return text

        def one(match):
            token = match.group()
            if token not in self.marks:
                self.marks[token] = self.new_mark()
                self.tokens[self.marks[token]] = token
            return self.marks[token]

        return self.control.sub(one, text)


class Renderer:
    """One template. Any thread may render; one does at a time."""

    def __init__(self, source, special_json, control_json, seconds):
        self.seconds = seconds  # for one render
        self.lock = threading.Lock()
        self.environment = make_environment()
        self.source = source
        self.special = json.loads(special_json)
        self.control = [token for token in json.loads(control_json) if token]
        self.constructed = []
        self.first = MARKS_FIRST
        try:
            self.compile(set())
        except jinja2.TemplateSyntaxError as error:
            raise Refusal(f"chat template, line {error.lineno}: {error.message}") from None
        self.takes_parts = self.probe_parts()
        self.takes_json_arguments = self.probe_arguments()
        self.constructed = self.probe_constructed()

    def compile(self, used):
        """Compiles with marks that are neither in `used` nor in the template."""
        taken = used | set(PRIVATE_USE.findall(self.source))
        taken |= {c for text in self.special.values() for c in PRIVATE_USE.findall(text)}
        for first in range(MARKS_FIRST, MARKS_LAST, MARKS_PER_TEMPLATE):
            if not any(first <= ord(c) < first + MARKS_PER_TEMPLATE for c in taken):
                self.first = first
                self.compiled = Compiled(self.environment, self.source, self.control, first)
                self.special_marked = {n: self.compiled.mark(t) for n, t in self.special.items()}
                self.literals = {}  # mark -> the character it hides, in constructed tokens
                return
        raise Refusal("the messages use private-use characters of every range; leave some out")

    # Probes: small conversations that say what the template can do.

    def try_render(self, messages, **variables):
        try:
            return self.render_marked(messages, None, variables.pop("reply", True), variables)
        except Exception:  # any failure answers the probe
            return None

    def probe_parts(self):
        text = "probe of parts"
        plain = self.try_render([{"role": "user", "content": text}])
        parts = self.try_render([{"role": "user", "content": [{"type": "text", "text": text}]}])
        return plain is not None and plain == parts

    def probe_arguments(self):
        """Whether the template prints a call's arguments as they are, so that they must be JSON."""
        function = {"name": "f", "arguments": {"probe": "x"}}
        text = self.try_render([
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": "",
             "tool_calls": [{"id": "callid000", "type": "function", "function": function}]}])
        return text is not None and "{'probe'" in text

    def probe_constructed(self):
        if not self.control:
            return []
        system, user, reply, tool = (
            {"role": role, "content": "x"} for role in ("system", "user", "assistant", "tool"))
        call = {"name": "f", "arguments": {}}
        caller = {"role": "assistant", "content": "x",
                  "tool_calls": [{"id": "callid000", "type": "function", "function": call}]}
        found = set()
        for messages in ([user], [system, user], [user, reply, user], [system, user, reply],
                         [user, caller, dict(tool, tool_call_id="callid000")]):
            text = self.try_render(messages)
            if text is not None:
                found.update(self.compiled.control.findall(text))
        return sorted(found)

    # Rendering.

    def protect(self, text):
        """`text` with the constructed tokens that it spells made literal."""
        if not self.constructed:
            return text

        def one(match):
            first = match.group()[0]
            for mark, hidden in self.literals.items():
                if hidden == first:
                    return mark + match.group()[1:]
            mark = self.compiled.new_mark()
            self.literals[mark] = first
            return mark + match.group()[1:]

        return re.sub(alternatives(self.constructed), one, text)

    def render_marked(self, messages, tools, reply, variables):
        values = dict(self.special_marked)
        values.update(variables)
        values.update(messages=messages, tools=tools, documents=values.get("documents"),
                      add_generation_prompt=reply)
        return self.compiled.template.render(values)

    def unmark(self, text):
        """The text with its tokens spelled out, and their byte ranges."""
        marks = list(self.compiled.tokens) + list(self.literals) + list(self.constructed)
        out, ranges, size, done = [], [], 0, 0

        def put(part):
            nonlocal size
            out.append(part.encode("utf-8", "replace"))
            size += len(out[-1])

        for match in re.finditer(alternatives(marks), text) if marks else ():
            put(text[done:match.start()])
            done = match.end()
            if match.group() in self.literals:
                put(self.literals[match.group()])
                continue
            begin = size
            put(self.compiled.tokens.get(match.group(), match.group()))
            ranges.append((begin, size))
        put(text[done:])
        return b"".join(out), ranges

    def plain(self, text):
        """For messages to people: no marks."""
        return self.unmark(text)[0].decode()

    def render(self, messages_json, tools_json, reply, variables_json):
        forms, tools, variables = self.read(messages_json, tools_json, variables_json)
        failure = None
        for attempt in self.message_forms(forms):
            try:
                return self.unmark(self.render_marked(attempt, tools, reply, variables))
            except Raised as error:
                raise Refusal(self.plain(str(error))) from None
            except Exception as error:  # a template may fail in any way
                failure = failure or error
        kind = type(failure).__name__
        raise Refusal(f"the chat template failed: {kind}: {self.plain(str(failure))}")

    def message_forms(self, forms):
        """The messages in the forms to try, the likeliest first: templates disagree on whether a
        call without text has null content, and whether arguments are an object or JSON text."""
        calls = len(forms) > 1
        for keep_null in (True, False) if calls and "tool_calls" in self.source else (False,):
            for messages in forms if self.takes_json_arguments else reversed(forms):
                yield [tidy(message, self.takes_parts, keep_null) for message in messages]

    def read(self, messages_json, tools_json, variables_json):
        """The inputs, checked and harmless; the messages as given and, if there are calls, with
        their arguments parsed: what JSON escapes inside JSON has to be harmless too."""
        values = []
        for name, text, kind in (("messages", messages_json, list), ("tools", tools_json, list),
                                 ("template variables", variables_json, dict)):
            try:
                value = json.loads(text) if text else kind()
            except (ValueError, RecursionError) as error:
                raise Refusal(f"{name}: not valid JSON: {error}") from None
            if value is None:
                value = kind()
            if not isinstance(value, kind):
                raise Refusal(f"{name}: must be a JSON {'array' if kind is list else 'object'}")
            values.append(value)
        messages = values[0]
        check_messages(messages)
        values[0] = [messages]
        if any(message.get("tool_calls") for message in messages):
            values[0].append([parse_calls(message) for message in messages])
        values = map_strings(values, whole_characters)
        used = set()
        map_strings(values, lambda text: used.update(PRIVATE_USE.findall(text)))
        if any(self.first <= ord(c) < self.first + MARKS_PER_TEMPLATE for c in used):
            self.compile(used)
        forms, tools, variables = map_strings(values, self.protect)
        for name in FIXED_NAMES:
            if name in variables and name != "documents":
                raise Refusal(f"template variables: {name} has its own argument")
        return forms, tools or None, variables


def check_messages(messages):
    for index, message in enumerate(messages):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise Refusal(f"messages[{index}]: must be an object with a role")
        content = message.get("content")
        if content is not None and not isinstance(content, (str, list)):
            raise Refusal(f"messages[{index}].content: must be a string, an array of parts or null")
        for part in content if isinstance(content, list) else ():
            kind = part.get("type") if isinstance(part, dict) else None
            if kind != "text" or not isinstance(part.get("text"), str):
                raise Refusal(f"messages[{index}].content: a part of type {kind!r} is not "
                              "supported; use {\"type\": \"text\", \"text\": ...}")


def tidy(message, takes_parts, keep_null):
    """One message in the form that templates expect."""
    message = {name: value for name, value in message.items() if value is not None}
    reasoning = next((message[name] for name in REASONING_NAMES if name in message), None)
    if reasoning is not None:
        message = {"thinking": reasoning, **message, "reasoning_content": reasoning}
    calls = message.get("tool_calls")
    if not calls:
        message.pop("tool_calls", None)
    content = message.get("content")
    if content is None:
        message["content"] = None if keep_null and calls else ""
    elif isinstance(content, list) and not takes_parts:
        message["content"] = "\n".join(part["text"] for part in content)
    return message


def parse_calls(message):
    """The message with its calls' arguments parsed."""
    calls = message.get("tool_calls")
    if not isinstance(calls, list):
        return message
    return dict(message, tool_calls=[parse_call(call) for call in calls])


def parse_call(call):
    """A tool call whose arguments, if they are JSON text of an object, are that object."""
    function = call.get("function") if isinstance(call, dict) else None
    arguments = function.get("arguments") if isinstance(function, dict) else None
    if not isinstance(arguments, str):
        return call
    try:
        parsed = json.loads(arguments)
    except (ValueError, RecursionError):  # not JSON, or nested without end
        return call
    if not isinstance(parsed, dict):
        return call
    return dict(call, function=dict(function, arguments=parsed))


def too_long(seconds):
    return f"the chat template was still at work after {seconds:g} s"


def create(source, special_json, control_json, seconds):
    try:
        with time_limit(seconds):
            return Renderer(source, special_json, control_json, seconds), ""
    except Refusal as refusal:
        return None, str(refusal)
    except TooLong:
        return None, too_long(seconds)


def render(renderer, messages, tools, reply, variables):
    """(bytes, ranges, "") or (None, None, message)."""
    try:
        with renderer.lock, time_limit(renderer.seconds):
            text, ranges = renderer.render(messages, tools, reply, variables)
        return text, ranges, ""
    except Refusal as refusal:
        return None, None, str(refusal)
    except TooLong:
        return None, None, too_long(renderer.seconds)
