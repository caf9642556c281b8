"""Finds errors that are made without a hint: every error says what to do about it.

Reads each call of a function that makes an Error (and each call that hands a hint on to one) in
the sources, and fails for a hint that is left out, {} or "".
"""
import pathlib
import re
import sys

# Name of the function -> position of the hint among its arguments.
MAKERS = {
    "UsageError": 1,
    "ModelError": 1,
    "EnvironmentError": 1,
    "Error": 2,
    "make_unique<Error>": 2,
    "diagnostics.Add": 2,
    "diagnostics_.Add": 2,
    "fail": 1,
}
CALL = re.compile(r"(?<![\w:.])(?:std::)?(" + "|".join(map(re.escape, MAKERS)) + r")\s*([({])")
# A hint that is empty in one of two cases, or when a caller gives none.
MAYBE = re.compile(r'\? *""|: *""|: *\{\}')
DEFAULT = re.compile(r'\b\w*hint\w* *= *(?:\{\}|"") *[,)]')
EMPTY = re.compile(r'^(?:|\{\}|(?:std::string(?:_view)?)?\(?\{?(?:"")?\}?\)?)$')
FOLDERS = ("apps", "calibrators", "formats", "lib")


def blanked(text):
    """The text with comments blanked, so that positions stay."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.S)
    return pattern.sub(
        lambda m: re.sub(r"[^\n]", " ", m[0]) if m[0].startswith("/") else m[0], text)


def arguments(text, begin):
    """The arguments of the call whose bracket opens at `begin`."""
    found, depth, start, at = [], 0, begin + 1, begin
    raw = re.compile(r'R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.S)
    while at < len(text):
        literal = raw.match(text, at)
        if literal:
            at = literal.end()
            continue
        c = text[at]
        if c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
            if depth == 0:
                found.append(text[start:at].strip())
                return found
        elif c == "," and depth == 1:
            found.append(text[start:at].strip())
            start = at + 1
        at += 1
    return found


def faults(path, text):
    text = blanked(text)
    for call in CALL.finditer(text):
        name = call[1]
        before = text[:call.start()].rstrip()
        if re.search(r"\b(Error|class|struct|enum|explicit|inline Error|const|void|shared_ptr<)$", before):
            continue  # a declaration
        given = arguments(text, call.end() - 1)
        if given and re.match(r"^(const )?(Error|std::string|ErrorCode)\b[ &]+\w", given[0]):
            continue  # parameters
        at = MAKERS[name]
        if name == "fail" and len(given) < 2:
            continue  # another function of that name
        if MAKERS[name] == 2 and name != "Error" and len(given) == 1:
            continue  # of an error that is made already
        if name == "Error" and not (given and "ErrorCode" in given[0]) and len(given) < 2:
            continue  # a copy
        if len(given) <= at or EMPTY.match(given[at]) or MAYBE.search(given[at]):
            line = text.count("\n", 0, call.start()) + 1
            yield f"{path}:{line}: {name} without a hint: say what the user can do"
    for default in DEFAULT.finditer(text):
        line = text.count("\n", 0, default.start()) + 1
        yield f"{path}:{line}: a hint that callers may leave out"


# Each must be found, or this check sees nothing.
SAMPLES = [
    'throw ModelError("a");',
    'throw ModelError("a, (b)", {}, where);',
    'throw UsageError("a" + Text({1, 2}), "", where);',
    'return std::make_unique<Error>(ErrorCode::kBug, "a");',
    'throw Error(ErrorCode::kGate, "a", near ? "" : "b");',
    'diagnostics_.Add(where, "a", "");',
    'Error Fail(const std::string& hint = {}) const;',
]


def main(root):
    found = [f"not seen: {sample}" for sample in SAMPLES if not list(faults("sample", sample))]
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".h", ".cc"):
                found += faults(path.relative_to(root), path.read_text())
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
