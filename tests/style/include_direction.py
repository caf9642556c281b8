"""Checks which module includes which: python3 include_direction.py ROOT.

Inside lib a module may include the modules before it; third-party headers stay inside the modules
that own them.
"""

import pathlib
import re
import sys

LIB = ["core", "yaml", "numeric", "model", "runtime", "quant"]
ALLOWED = {f"lib/{name}": [f"lib/{n}" for n in LIB[: i + 1]] for i, name in enumerate(LIB)}
ALLOWED["lib/report"] = ["lib/core", "lib/numeric", "lib/report"]
ALLOWED["formats"] = ["formats", "lib"]
ALLOWED["calibrators"] = ["calibrators", "lib"]
ALLOWED["apps"] = ["apps", "calibrators", "formats", "lib"]
# The plug-in is where the operators meet the formats that they are registered with.
ALLOWED["lib/runtime/plugin"] = ALLOWED["lib/runtime"] + ["formats"]

# Pattern of a third-party header -> folders that may include it (an extension limits it to those files).
THIRD_PARTY = [
    (r"(onnx/|google/protobuf/)", ["lib/model/onnx"]),
    (r"onnxruntime", ["lib/runtime"]),
    (r"yaml-cpp/", ["lib/yaml", "lib/quant", "lib/model/safetensors"]),
    (r"CLI/|CLI11", ["apps"]),
    (r"spdlog/", ["apps"]),
    (r"hwy/", ["formats", "lib/core", "lib/numeric"]),
    (r"(oneapi/)?tbb/", ["lib/core"]),
    (r"zip\.h$", ["lib/runtime"]),
    (r"(stb/)?stb_", ["lib/runtime"]),
    (r"xxhash", ["lib/core"]),
    (r"pcre2", ["lib/core", "lib/model"]),
    (r"unicode/", ["lib/model"]),
    (r"sentencepiece", ["lib/model"]),
    (r"nlohmann/", ["lib/model", "lib/runtime", "lib/quant", "lib/report", "apps"]),
]
# In a public header these would reach every includer.
CC_ONLY = re.compile(r"hwy/|(oneapi/)?tbb/|zip\.h$|stb_|xxhash|pcre2|unicode/|sentencepiece")

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')


def inside(path, folder):
    return path == folder or path.startswith(folder + "/")


def check(root, path):
    name = path.relative_to(root).as_posix()
    owner = max((m for m in ALLOWED if inside(name, m)), key=len)
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        header = match.group(1)
        where = f"{name}:{number}"
        if re.match(r"(lib|formats|calibrators|apps|tests)/", header):
            if not any(inside(header, allowed) for allowed in ALLOWED[owner]):
                yield f"{where}: {owner} must not include {header}"
            if not (root / header).exists():
                yield f"{where}: no such file {header}"
        for pattern, folders in THIRD_PARTY:
            if not re.match(pattern, header):
                continue
            if not any(inside(name, folder) for folder in folders):
                yield f"{where}: {header} belongs to {', '.join(folders)}"
            elif path.suffix == ".h" and CC_ONLY.match(header) and not name.endswith("-inl.h"):
                yield f"{where}: {header} may be included by .cc files only"


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    files = [
        p
        for top in ("lib", "formats", "calibrators", "apps")
        for p in sorted((root / top).rglob("*"))
        if p.suffix in (".cc", ".h")
    ]
    problems = [problem for path in files for problem in check(root, path)]
    print("\n".join(problems) or f"{len(files)} files, includes in order")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
