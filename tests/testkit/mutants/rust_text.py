"""Finds constants and their uses in Rust's text, without a full parser; the compiler checks the result."""

import re

# Comments, strings and character literals; a lifetime does not count as one.
SKIPPED = re.compile(
    r"""//[^\n]*|/\*.*?\*/|b?r(?P<marks>#*)".*?"(?P=marks)|b?"(?:\\.|[^"\\])*"|b?'(?:\\[^\n]+?|[^\\'\n])'""",
    re.DOTALL,
)
NUMBERS = r"usize|u8|u16|u32|u64|Millis"
CONSTANT = re.compile(rf"\bconst ([A-Z][A-Z0-9_]*): ({NUMBERS})\s*=\s*")
DEFAULTS = re.compile(r"\bimpl Default for (\w+) \{")
FIELD = re.compile(r"^ +(\w+): ((?:Millis\()?[0-9_]+\)?),$", re.MULTILINE)
# Types whose defaults are changed: settings, and the time spans of an installation.
SETTINGS = re.compile(r"Settings$|^Timing$")


def code_of(text):
    """The text with spaces in place of comments, strings and character literals."""
    blank = lambda found: re.sub(r"[^\n]", " ", found.group(0))
    return SKIPPED.sub(blank, text)


def is_no_change(own, change):
    """Whether a change leaves the value as it is, or is impossible: 0 can only become 1."""
    number = re.fullmatch(r"(?:Millis\()?([0-9_]+)\)?", own)
    return bool(number) and int(number.group(1).replace("_", "")) == 0 and change != "more"


class Source:
    """A Rust file."""

    def __init__(self, text):
        self.text = text
        self.code = code_of(text)
        tests = re.search(r"#\[cfg\(test\)\]\s*mod ", self.code)
        self.tests_at = tests.start() if tests else len(text)
        self.imports = self.spans(re.compile(r"\buse\s"))
        self.attributes = [m.span() for m in re.finditer(r"#!?\[[^\]]*\]", self.code)]
        self.definitions = self.spans(re.compile(r"\b(?:const|static)\s+(?:mut\s+)?\w+\s*:"))

    def spans(self, begins):
        """The spans from each match to the next semicolon."""
        return [(m.start(), self.end_of(m.end())) for m in begins.finditer(self.code)]

    def end_of(self, at):
        depth = 0
        for end in range(at, len(self.code)):
            depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(self.code[end], 0)
            if self.code[end] == ";" and depth == 0:
                return end
        return len(self.code)

    def constants(self):
        """The position, name, type and value of each constant's definition."""
        for found in CONSTANT.finditer(self.code):
            own = self.text[found.end() : self.end_of(found.end())]
            yield found.start(), found.group(1), found.group(2), " ".join(own.split())

    def defaults(self):
        """The position, name, type and value of each number in a `Default` of settings."""
        for block in DEFAULTS.finditer(self.code):
            if not SETTINGS.search(block.group(1)):
                continue
            end = self.code.find("\n}\n", block.end())
            for field in FIELD.finditer(self.code, block.end(), end):
                kind = "Millis" if field.group(2).startswith("Millis") else "count"
                start, stop = field.span(2)
                yield start, stop, f"{block.group(1)}.{field.group(1)}", kind, field.group(2)

    def names(self, wanted):
        """The positions of these names, each with the path before it."""
        for found in re.finditer(r"(?<!\w)(?:(?<=\.\.)|(?<![.:]))((?:\w+::)*)([A-Z][A-Z0-9_]*)\b(?!\s*[!(])", self.code):
            if found.group(2) in wanted:
                yield found.start(), found.end(), found.group(2)

    def which(self, start, end, name, candidates, file):
        """The constant that a name refers to at this position; None if it is something else."""
        path = self.code[start:end].split("::")[:-1]
        if path and path[-1] not in ("super", "self", "crate"):
            return next((c for c in candidates if c.module == path[-1]), None)
        own = next((c for c in candidates if c.file == file), None)
        if own:
            return own
        if re.search(rf"\bconst {name}\b", self.code):
            return None
        # By import: the module's path before the name, with or without braces.
        for begin, stop in self.imports:
            statement = self.code[begin:stop]
            at = re.search(rf"\b{name}\b", statement)
            if at:
                modules = re.findall(r"\b(\w+)::", statement[: at.start()])
                exact = [c for c in candidates if c.module in modules]
                if len(exact) == 1:
                    return exact[0]
                if len(candidates) == 1:
                    return candidates[0]
                raise SystemExit(f"constants: which {name} does {file} import?")
        return None

    def is_fixed(self, start, end):
        """The reason for which a use cannot be switched; None if it can."""
        inside = lambda spans: any(a <= start < b for a, b in spans)
        if inside(self.imports):
            return "definition"
        if inside(self.attributes):
            return "an attribute"
        for begin, _ in (span for span in self.definitions if span[0] <= start < span[1]):
            if re.search(r"\bconst $", self.code[begin:start]):
                return "definition"
            # A value in a closure is evaluated later, so it can be switched.
            if "|" not in self.code[begin:start]:
                return "another constant"
        if re.match(r"\s*(?:=>|\|[^|])", self.code[end:]):
            arm = re.split(r"[,{}]", self.code[:start])[-1]
            if not re.search(r"\bif\b", arm):
                return "a pattern"
        opened = self.code.rfind("[", 0, start)
        if re.search(r";\s*$", self.code[opened:start]) and self.code[end:].lstrip().startswith("]"):
            if not self.code[:opened].endswith("!"):
                return "the length of an array"
        return None
