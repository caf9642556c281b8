"""Checks that no library prints: silent_libraries.py NM ARCHIVE...

What the programs say, and where, is for them to decide; libraries return text or tell a LogSink. The symbols of the standard
streams and of the C functions that write to them must not be asked for.
"""

import pathlib
import re
import subprocess
import sys

PRINTS = re.compile(
    r"std::(__cxx11::)?(cout|cerr|clog|wcout|wcerr|wclog)$"
    r"|(__)?(v?f?printf|puts|putchar|fputs|fputc|putc|perror|psignal)(_chk|_unlocked)?(@.*)?$"
    r"|(stdout|stderr)(@.*)?$"
)
# Holds std::cerr back from ONNX Runtime, which writes to it.
ALLOWED = {("session.cc.o", "std::cerr")}


def main():
    nm, *archives = sys.argv[1:]
    problems, members = [], 0
    for archive in archives:
        lines = subprocess.run([nm, "-C", "-u", archive], capture_output=True, text=True, check=True).stdout.splitlines()
        member = pathlib.Path(archive).name
        for line in lines:
            if line.endswith(":"):
                member, members = line[:-1], members + 1
                continue
            symbol = line.strip().removeprefix("U ").strip()
            if PRINTS.match(symbol) and (member, symbol) not in ALLOWED:
                problems.append(f"{archive}: {member} uses {symbol}: libraries return text or tell a LogSink")
    print("\n".join(problems) or f"{len(archives)} libraries of {members} objects print nothing")
    return 1 if problems or (archives and members == 0) else 0


if __name__ == "__main__":
    sys.exit(main())
