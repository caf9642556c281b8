"""Checks that every option of a program is in its help, completions, manual page and documentation.

python3 generated_test.py PROGRAM DOCS [--update]: with --update DOCS/cli/PROGRAM.md is written anew.
"""

import pathlib
import re
import shutil
import subprocess
import sys

program = pathlib.Path(sys.argv[1])
docs = pathlib.Path(sys.argv[2]) / "cli" / f"{program.name}.md"
problems = []


def output(*arguments):
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0 or done.stderr:
        problems.append(f"{arguments}: exit code {done.returncode}, {done.stderr}")
    return done.stdout


def require(condition, what):
    if not condition:
        problems.append(what)


def check_tool(command, text, what):
    """Lets another program read the text, where it is installed."""
    if shutil.which(command[0]) is None:
        print(f"not checked with {command[0]}, which is not installed: {what}")
        return
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    require(done.returncode == 0 and not done.stderr.strip(), f"{what}: {done.stderr}")


def complete_in_bash(script, words):
    """What bash offers for the last of the words."""
    name = re.search(r"^(_\w+)\(\)", script, re.M).group(1)
    line = " ".join(f"'{w}'" for w in words)
    run = f"{script}\nCOMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; {name}; echo \"${{COMPREPLY[@]}}\""
    return subprocess.run(["bash", "-c", run], capture_output=True, text=True, check=True).stdout.split()


full, short = output("--help"), output("-h")
options = sorted(set(re.findall(r"^  (?:-\w, |    )(--[\w-]+)", full, re.M)))
require(len(options) > 5, f"too few options in --help: {options}")
for flag in re.findall(r"^  (?:-\w, |    )(--[\w-]+)", short, re.M):
    require(flag in options, f"{flag} is in -h but not in --help")
require(len(short.splitlines()) <= 32, f"-h has {len(short.splitlines())} lines: not one screen")
require(max(map(len, full.splitlines())) <= 100, "--help is wider than 100 columns")
require(short.rstrip().splitlines()[-1].startswith(f"  {program.name} "), "-h does not end with examples")
require(short.rstrip().splitlines()[-3] == "Examples:", "-h does not end with two examples")

generated = {
    kind: output("--generate", kind)
    for kind in ("completion-bash", "completion-zsh", "completion-fish", "man", "markdown")
}
for kind, text in generated.items():
    for option in options:
        spelling = {
            "completion-fish": f"-l {option[2:]} ",
            "man": option.replace("-", "\\-"),
        }.get(kind, option)
        require(spelling in text, f"{kind} does not name {option}")

bash = generated["completion-bash"]
require(sorted(o for o in complete_in_bash(bash, [program.name, "--"]) if o.startswith("--")) ==
        sorted([*options, "--help"] if "--help" not in options else options), "bash offers other options")
require(complete_in_bash(bash, [program.name, "--color", "a"]) == ["auto", "always"], "bash: --color")
check_tool(["zsh", "-n"], generated["completion-zsh"], "zsh completion")
check_tool(["fish", "--no-execute"], generated["completion-fish"], "fish completion")
check_tool(["groff", "-man", "-Tutf8", "-ww", "-z"], generated["man"], "manual page")

if "--update" in sys.argv:
    docs.parent.mkdir(parents=True, exist_ok=True)
    docs.write_text(generated["markdown"], encoding="utf-8")
require(docs.is_file() and docs.read_text(encoding="utf-8") == generated["markdown"],
        f"{docs} is not what --generate markdown prints: run {sys.argv[0]} with --update")

print("\n".join(problems) or f"{len(options)} options everywhere")
sys.exit(1 if problems else 0)
