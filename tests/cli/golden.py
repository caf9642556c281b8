"""Runs command lines and compares what they print with what a file expects.

python3 golden.py BIN_DIR CASES [--update]

A case is a line '$ command', run by bash in a fresh copy of data/, and below it what came of it: '= N' the exit code, '>'
lines of stdout, '!' lines of stderr. A '<<' at the end of such a block stands for more lines of any kind. With
--update the file is rewritten with what came.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


def parse(text):
    """Yields ('text', line) for what is between cases and ('case', command, expected lines)."""
    command, expected = None, []
    for line in text.splitlines():
        if line.startswith("$ "):
            if command is not None:
                yield "case", command, expected
            command, expected = line[2:], []
        elif command is not None and line[:1] in ("=", ">", "!", "<"):
            expected.append(line)
        else:
            if command is not None:
                yield "case", command, expected
                command, expected = None, []
            yield "text", line, None
    if command is not None:
        yield "case", command, expected


def run(command, bin_dir):
    """What came of the command, in the form that the file has."""
    env = {
        "PATH": f"{bin_dir}:{os.environ['PATH']}",
        "LANG": "C.UTF-8",
        "HOME": "/nonexistent",
        **{k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")},
    }
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(HERE / "data", folder, dirs_exist_ok=True)
        done = subprocess.run(
            ["bash", "-c", command], cwd=folder, env=env, capture_output=True, timeout=120, check=False
        )
    lines = [f"= {done.returncode}"]
    for mark, data in ((">", done.stdout), ("!", done.stderr)):
        text = data.decode("utf-8", "replace").replace(folder, "FOLDER")
        text = text.replace("\x1b", "\\e").replace("\r", "\\r")
        lines += [f"{mark} {line}".rstrip() for line in text.splitlines()]
    return lines


def matches(expected, found):
    """True when they are equal; after '<<' in a stream's block any further lines of that stream are right."""
    if "<<" not in expected:
        return expected == found
    for mark in "=>!":
        want, open_end = [], False
        last = ""
        for line in expected:
            if line == "<<" and last == mark:
                open_end = True
            elif line != "<<":
                last = line[0]
                if last == mark:
                    want.append(line)
        have = [line for line in found if line[0] == mark]
        if have[: len(want)] != want or (len(have) > len(want) and not open_end):
            return False
    return True


def main():
    bin_dir, path = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    update = "--update" in sys.argv
    out, count, bad = [], 0, 0
    for kind, text, expected in parse(path.read_text(encoding="utf-8")):
        if kind == "text":
            out.append(text)
            continue
        count += 1
        found = run(text, bin_dir)
        good = matches(expected, found)
        out += [f"$ {text}"] + (expected if good or not update else found)
        if not good and not update:
            bad += 1
            print(f"--- {path.name}: $ {text}\nexpected:", *expected, "found:", *found, sep="\n  ")
    if update:
        path.write_text("\n".join(out) + "\n", encoding="utf-8")
    print(f"{count} command lines, {bad} differ")
    return 1 if bad or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
