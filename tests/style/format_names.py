"""Looks for number formats that lib knows by name, and for sizes of their tiles: format_names.py ROOT HIF8_CALIBRATE.

What files say of a format is its storage(), formats/*.cc. The built-in recipes are texts as a user writes them, and the
layouts of some loaders list the formats that these loaders have a class for. Words of `quantization_config` are others' names.
"""

import pathlib
import re
import subprocess
import sys

EXEMPT = [
    "lib/quant/config_builtin.cc",
    "lib/model/safetensors/layout_ascendv1.cc",
    "lib/model/safetensors/layout_cann.cc",
    "lib/model/safetensors/source_quantization.cc",
]
# What belongs to the program, whose name is that of a format: its commands, files and schemas.
PROGRAM = re.compile(r"\bhif8(-[a-z]+|[._/][a-z]\w*)")
TILES = re.compile(r"\bTile\s*(\w+\s*)?\{[^}]*[1-9]\d|\b(Edge|Block|Group|Tile)\w*\s*(=|\{)\s*\{?\s*[1-9]\d")


def literals(text):
    """String literals with their lines, comments aside."""
    for number, line in enumerate(text.splitlines(), 1):
        code = re.sub(r"\s//.*|^//.*", "", line)
        for match in re.finditer(r'"((?:[^"\\]|\\.)*)"', code):
            if not code.lstrip().startswith("#include"):
                yield number, match.group(1)


def main():
    root, program = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    listed = subprocess.run([program, "--list", "formats"], capture_output=True, text=True, check=True).stdout
    names = [line.split()[0] for line in listed.splitlines() if line.strip()]
    if len(names) < 2 or "hif8" not in names:
        raise SystemExit(f"--list formats: expected names of formats, found {names}")
    pattern = re.compile(r"(?<!\w)(" + "|".join(map(re.escape, sorted(names, key=len, reverse=True))) + r")(?![a-z0-9])")
    files = [p for p in sorted((root / "lib").rglob("*")) if p.suffix in (".cc", ".h")]
    problems = []
    for path in files:
        name, text = str(path.relative_to(root)), path.read_text(encoding="utf-8")
        if name in EXEMPT:
            continue
        for number, literal in literals(text):
            if match := pattern.search(PROGRAM.sub("", literal)):
                problems.append(f"{name}:{number}: names the format '{match.group(1)}'")
        for number, line in enumerate(text.splitlines(), 1):
            if TILES.search(re.sub(r"//.*", "", line)):
                problems.append(f"{name}:{number}: the size of a tile")
    looked = len(files) - len(EXEMPT)
    print("\n".join(problems) or f"{looked} files, none names one of {', '.join(names)}; not looked at: {', '.join(EXEMPT)}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
