"""The checks of style find what they are there for: python3 style_checks_test.py ROOT."""

import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(sys.argv[1])

# File, its content, and what the check must say about it; None: nothing.
INCLUDES = [
    ("lib/core/a.h", "#pragma once\n", None),
    ("lib/numeric/up.h", '#include "lib/core/a.h"\n', None),
    ("lib/core/down.cc", '#include "lib/numeric/up.h"\n', "lib/core must not include"),
    ("lib/report/quant.cc", '#include "lib/quant/q.h"\n', "lib/report must not include"),
    ("lib/quant/report.cc", '#include "lib/report/r.h"\n', "lib/quant must not include"),
    ("calibrators/f.cc", '#include "formats/f.h"\n', "calibrators must not include"),
    ("lib/runtime/absent.cc", '#include "lib/core/absent.h"\n', "no such file"),
    ("lib/quant/pb.cc", "#include <onnx/onnx_pb.h>\n", "belongs to lib/model/onnx"),
    ("lib/model/onnx/pb.cc", "#include <onnx/onnx_pb.h>\n", None),
    ("lib/model/ort.cc", "# include <onnxruntime_c_api.h>\n", "belongs to lib/runtime"),
    ("lib/runtime/yaml.cc", "#include <yaml-cpp/yaml.h>\n", "belongs to lib/yaml, lib/quant"),
    ("formats/simd.h", "#include <hwy/highway.h>\n", ".cc files only"),
    ("formats/simd.cc", "#include <hwy/highway.h>\n", None),
]
LIMITS = [
    ("lib/short.cc", "//\n" * 420, None),
    ("lib/long.cc", "//\n" * 421, "421 lines"),
    ("docs/host.md", "see registry." + "npm" + "js.org\n", "a package registry's host"),
    ("docs/path.md", "cd /ho" + "me/someone/project\n", "a path of one machine"),
    ("lib/half.h", "#pragma once\n// What it is.\nint x;\n", "does not begin with a verb"),
    ("lib/whole.h", "// What the file is.\n#pragma once\n// Returns x.\n// The same again.\nint x();\n", None),
    ("docs/relative.md", "cd ~/work/x; ls $HOME/work/y build/work/z\n", None),
]


def run(script, files):
    """Runs the check over a tree of these files; returns what it says about each, and its status."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content, _ in files:
            path = pathlib.Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        result = subprocess.run(
            [sys.executable, ROOT / "tests/style" / script, folder],
            capture_output=True,
            text=True,
            check=False,
        )
    return result.stdout, result.returncode


def printing_library():
    """What is said of a library of which one object prints and the other one does not."""
    with tempfile.TemporaryDirectory() as folder:
        for name, body in (("loud", 'std::printf("%d", x)'), ("silent", "x + 1")):
            pathlib.Path(folder, f"{name}.cc").write_text(f"#include <cstdio>\nint {name}(int x) {{ return {body}; }}\n")
            subprocess.run(["c++", "-c", f"{name}.cc"], cwd=folder, check=True)
        subprocess.run(["ar", "rc", "lib.a", "loud.o", "silent.o"], cwd=folder, check=True)
        command = [sys.executable, ROOT / "tests/style/silent_libraries.py", "nm", "lib.a"]
        result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if result.returncode != 1 or "loud.o uses printf" not in result.stdout or "silent.o" in result.stdout:
        yield f"silent_libraries.py: exit status {result.returncode}\n{result.stdout}{result.stderr}"


def main():
    failures = list(printing_library())
    for script, files in (("include_direction.py", INCLUDES), ("style_limits.py", LIMITS)):
        output, status = run(script, files)
        if status != 1:
            failures.append(f"{script}: exit status {status}, expected 1\n{output}")
        for name, _, expected in files:
            said = [line for line in output.splitlines() if line.startswith(name + ":")]
            if expected is None and said:
                failures.append(f"{script}: complains about {name}: {said}")
            if expected is not None and not any(expected in line for line in said):
                failures.append(f"{script}: {name}: expected '{expected}', found {said}")
        clean = [entry for entry in files if entry[2] is None]
        output, status = run(script, clean)
        if status != 0:
            failures.append(f"{script}: complains about a clean tree: {output}")
    print("\n".join(failures) or "the checks find what they are there for")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
