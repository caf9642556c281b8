"""Looks for the names of model families in C++: model_types.py ROOT.

What a family computes is said by its description alone, lib/model/safetensors/arch/*.yaml.
"""

import pathlib
import re
import sys


def model_types(root):
    for path in sorted((root / "lib/model/safetensors/arch").glob("*.yaml")):
        match = re.search(r"^model_types: \[(.*)\]$", path.read_text(encoding="utf-8"), re.M)
        if not match:
            raise SystemExit(f"{path}: no line model_types: [...]")
        yield from (name.strip() for name in match.group(1).split(","))


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    types = sorted(set(model_types(root)))
    pattern = re.compile(r"\b(" + "|".join(map(re.escape, types)) + r")\b")
    files = [
        p
        for top in ("lib", "formats", "calibrators", "apps")
        for p in sorted((root / top).rglob("*"))
        if p.suffix in (".cc", ".h")
    ]
    problems = [
        f"{path.relative_to(root)}:{number}: names the model type '{match.group(1)}'"
        for path in files
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for match in [pattern.search(line)]
        if match
    ]
    print("\n".join(problems) or f"{len(files)} files, none names one of {len(types)} model types")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
