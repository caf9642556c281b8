"""Fails when a kernel lost more than a quarter of its lead over a plain loop: python3 smoke.py SMOKE_BENCH [--record]

The ratios to compare with are in recorded.json, for each maker of processors and instruction set that they were recorded on. A ratio that is too
small is measured again, a few times: noise takes away, and the best counts. --record writes what was measured now.
"""

import json
import pathlib
import subprocess
import sys

RECORDED = pathlib.Path(__file__).with_name("recorded.json")
KEPT = 0.75
TRIES = 5
SKIPPED = 77


def measure(program):
    return json.loads(subprocess.run([program], capture_output=True, text=True, check=True).stdout)


def maker():
    """vendor_id of the processor, such as GenuineIntel: makers differ in what plain loops cost."""
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("vendor_id"):
            return line.split(":")[1].strip()
    return "unknown"


def main(program, *options):
    recorded = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    found = measure(program)
    target, best = f"{maker()} {found['target']}", found["ratios"]
    if options == ("--record",):
        for _ in range(TRIES - 1):  # the median of the tries: neither luck nor noise
            for name, ratio in measure(program)["ratios"].items():
                best.setdefault(f"all {name}", [best[name]]).append(ratio)
        names = [n for n in best if not n.startswith("all ")]
        recorded[target] = {n: round(sorted(best[f"all {n}"])[TRIES // 2], 3) for n in names}
        RECORDED.write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n")
        return 0
    if target not in recorded:
        print(f"skipped: no ratios recorded for {target} (smoke.py SMOKE_BENCH --record)")
        return SKIPPED
    limits = {name: KEPT * ratio for name, ratio in recorded[target].items()}
    tries = 1
    while tries < TRIES and any(best[name] < limit for name, limit in limits.items()):
        for name, ratio in measure(program)["ratios"].items():
            best[name] = max(best[name], ratio)
        tries += 1
    failed = 0
    for name, limit in limits.items():
        failed += best[name] < limit
        verdict = "ok" if best[name] >= limit else "TOO SLOW"
        print(f"{name:22} {best[name]:8.2f}, recorded {recorded[target][name]:8.2f}, at least {limit:8.2f}: {verdict}")
    print(f"{target}, tries: {tries}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
