"""Runs clang-tidy over every C++ source file of a build: python3 lint.py [--build DIR] [--seconds N] [--jobs N] [--cache DIR].

What was found clean is remembered by content (the file, every header of the project that it includes, the settings and the
command), so that only what changed takes time. Files of the newest commits come first; what is left when the time is up is
counted. Exit code 1 when a file has a finding.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


def output(*command):
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def dependencies(build):
    """The project's files that each object is made of, by the object's path in the build."""
    found, current = {}, None
    for line in output("ninja", "-C", str(build), "-t", "deps").splitlines():
        if line.startswith("    "):
            path = (build / line.strip()).resolve()
            if path.is_relative_to(ROOT):
                current.append(path)
        elif ": #deps" in line:
            current = found.setdefault(line.split(": #deps")[0], [])
    return found


class Keys:
    """Names what clang-tidy sees of a file."""

    def __init__(self, build):
        self.dependencies = dependencies(build)
        self.settings = output("clang-tidy", "--version") + (ROOT / ".clang-tidy").read_text()
        self.contents = {}

    def content(self, path):
        if path not in self.contents:
            self.contents[path] = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "none"
        return self.contents[path]

    def key(self, entry):
        """Nothing for what was not compiled: its headers are not known."""
        files = self.dependencies.get(entry["command"].split(" -o ")[1].split()[0])
        if not files:
            return None
        lines = [f"{path.relative_to(ROOT)} {self.content(path)}" for path in sorted(files)]
        command = entry["command"].replace(str(ROOT), "ROOT")
        return hashlib.sha256("\n".join([self.settings, command, *lines]).encode()).hexdigest()


def newest_first(files):
    """In the order of the last commit that changed each."""
    log = output("git", "log", "-n", "200", "--format=", "--name-only", "-m", "--first-parent", "--", "*.cc", "*.h")
    rank = {}
    for name in log.split():
        rank.setdefault(name, len(rank))
    return sorted(files, key=lambda path: rank.get(path, len(rank)))


def lint(build, path):
    run = subprocess.run(["clang-tidy", "--quiet", "-p", build, path], cwd=ROOT, capture_output=True, text=True, check=False)
    return run.returncode, run.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    home = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    parser.add_argument("--cache", default=pathlib.Path(home) / "hif8-lint")
    options = parser.parse_args()
    cache = pathlib.Path(options.cache)
    cache.mkdir(parents=True, exist_ok=True)
    build = ROOT / options.build
    keys = Keys(build)
    wanted = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = pathlib.Path(entry["file"])
        if path.suffix == ".cc" and path.is_relative_to(ROOT) and not path.is_relative_to(build):
            wanted[str(path.relative_to(ROOT))] = keys.key(entry)
    files = [path for path in newest_first(wanted) if wanted[path] is None or not (cache / wanted[path]).exists()]
    end = time.monotonic() + options.seconds
    linted, failed = 0, []

    def one(path):
        return (path, *lint(build, path)) if time.monotonic() < end else None

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for result in pool.map(one, files):
            if result is None:
                continue
            path, code, text = result
            linted += 1
            if code != 0:
                failed.append(path)
                print(text, flush=True)
            elif wanted[path]:
                (cache / wanted[path]).touch()
    print(f"{len(wanted)} files: {len(wanted) - len(files)} known to be clean, {linted} linted, {len(files) - linted} left out")
    if failed:
        print("lint failed:", *failed)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
