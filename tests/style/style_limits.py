"""Checks limits that a person would otherwise have to watch: python3 style_limits.py ROOT.

Source files stay short, no file of the project names a package registry or a path of one machine, and comments on
declarations are sentences that begin with a verb.
"""

import pathlib
import re
import subprocess
import sys

MAX_LINES = 420
SOURCE = {".cc", ".h", ".py", ".sh", ".cmake"}
TEXT = SOURCE | {".md", ".txt", ".json", ".yaml", ".yml", ".supp", ""}
# Written in pieces, so that this file passes its own check.
FORBIDDEN = [
    (re.compile(r"registry\." + r"(npm|yarn)|npm" + r"js\.(org|com)"), "a package registry's host"),
    (re.compile(r"(deb|security|ftp|httpredir|snapshot)\." + r"debian\.org"), "a package registry's host"),
    (re.compile(r"pypi\." + r"org|files\." + r"pythonhosted"), "a package registry's host"),
    (re.compile(r"(?<![\w.$}~/])/(work|home|root)/" + r"[\w.]"), "a path of one machine"),
]

# Beginnings of half sentences, which lean on the declaration before or below them.
HALF_SENTENCE = re.compile(r"\s*// (What|The same|Of|How|Which|Whether|Who|Where|Like|Those|As|By)\b")


def half_sentences(name, lines):
    """Comments of a header that do not begin with a verb; its first line says what the file is."""
    if not name.endswith(".h") or name.startswith("tests/"):
        return
    for number, (before, line) in enumerate(zip(lines, lines[1:]), 2):
        if HALF_SENTENCE.match(line) and not before.lstrip().startswith("//"):
            yield f"{name}:{number}: the comment does not begin with a verb: {line.strip()[:80]}"


def project_files(root):
    """The files under version control, or all files where there is no git."""
    listed = subprocess.run(
        ["git", "-C", root, "ls-files", "-z"], capture_output=True, text=True, check=False
    )
    if listed.returncode == 0 and listed.stdout:
        return [root / name for name in listed.stdout.split("\0") if name]
    skip = {"build", ".git", "node_modules"}
    return [p for p in root.rglob("*") if p.is_file() and not skip & set(p.relative_to(root).parts)]


def check(root, path):
    name = path.relative_to(root).as_posix()
    if path.suffix not in TEXT or name.startswith("tests/data/") or not path.is_file():
        return
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        return
    if path.suffix in SOURCE and len(lines) > MAX_LINES:
        yield f"{name}: {len(lines)} lines, at most {MAX_LINES}"
    yield from half_sentences(name, lines)
    for number, line in enumerate(lines, 1):
        for pattern, what in FORBIDDEN:
            if pattern.search(line):
                yield f"{name}:{number}: names {what}: {line.strip()[:80]}"


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    files = project_files(root)
    problems = [problem for path in files for problem in check(root, path)]
    print("\n".join(problems) or f"{len(files)} files within limits")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
