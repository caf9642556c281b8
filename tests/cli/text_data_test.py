"""Calibration data of language models in every wrapping: text_data_test.py HIF8_CALIBRATE DATA_DIR."""

import gzip
import json
import pathlib
import struct
import sys
import unittest

from program_case import CalibrateCase

MODEL = pathlib.Path(sys.argv[2]).resolve() / "models" / "random-qwen2"
SAMPLES = [list(range(5, 60)), list(range(90, 120)), [7, 3, 9]]


def zstd(data):
    """A frame of raw blocks (RFC 8878)."""
    frame = b"\x28\xb5\x2f\xfd" + bytes([0xA0]) + struct.pack("<I", len(data))
    for at in range(0, max(len(data), 1), 100):
        block = data[at : at + 100]
        last = at + 100 >= len(data)
        frame += struct.pack("<I", len(block) << 3 | last)[:3] + block
    return frame


class TextDataTest(CalibrateCase):
    def setUp(self):
        super().setUp()
        self.enter_folder()

    def calibrated(self, name, data):
        pathlib.Path(name).write_bytes(data)
        self.run_program(MODEL, "--data", name, "-o", "out", "--force", "-q")
        return json.loads(pathlib.Path("out/report.json").read_text())["layers"]

    def refused(self, name, data, *says):
        pathlib.Path(name).write_bytes(data)
        self.run_program(MODEL, "--data", name, "-o", "none", code=3, says=[name, *says])
        self.assertFalse(pathlib.Path("none").exists())

    def test_the_same_data_in_other_wrappings(self):
        lines = "".join(json.dumps({"input_ids": ids}) + "\n" for ids in SAMPLES).encode()
        expected = self.calibrated("a.jsonl", lines)
        one, two = lines[:150], lines[150:]
        for name, data in (
            ("a.jsonl.gz", gzip.compress(lines)), ("members.jsonl.gz", gzip.compress(one) + gzip.compress(two)),
            ("b.jsonl.gz", lines), ("a.jsonl.zst", zstd(lines)), ("frames.jsonl.zst", zstd(one) + zstd(two)),
            ("a.json", json.dumps([{"input_ids": ids} for ids in SAMPLES], indent=1).encode()),
            ("a.json.gz", gzip.compress(json.dumps([{"input_ids": ids} for ids in SAMPLES]).encode())),
            ("no_end.jsonl", lines.rstrip()), ("empty_lines.jsonl.zst", zstd(b"\n \n" + lines + b"\n\n")),
        ):  # fmt: skip
            with self.subTest(name):
                self.assertEqual(self.calibrated(name, data), expected)

    def test_long_lines(self):
        long = [i % 200 + 3 for i in range(900_000)]  # several pieces
        text = (json.dumps({"input_ids": long}) + "\n" + json.dumps({"input_ids": SAMPLES[0]})).encode()
        arguments = ("--sequence-length", "40")
        self.assertGreater(len(text), 3 << 20)
        pathlib.Path("a.jsonl.gz").write_bytes(gzip.compress(text))
        pathlib.Path("a.jsonl").write_bytes(text)
        reports = []
        for name in ("a.jsonl", "a.jsonl.gz"):
            self.run_program(MODEL, "--data", name, "-o", "out", "--force", "-q", *arguments)
            reports.append(json.loads(pathlib.Path("out/report.json").read_text())["layers"])
        self.assertEqual(*reports)

    def test_damage(self):
        lines = b'{"input_ids": [1, 2, 3]}\n' * 50
        for pack, name in (gzip.compress, "a.jsonl.gz"), (zstd, "a.jsonl.zst"):
            packed = pack(lines)
            self.refused(name, packed[:-12], "compressed data cannot be read", "not complete")
            self.refused(name, packed[:9] + b"\xff\xff\xff" + packed[12:], "compressed data cannot be read")
            self.refused(name, pack(b""), "expected at least one sequence")

    def test_chats_are_named(self):
        for key in "messages", "conversations":
            self.refused("a.jsonl", json.dumps({key: [{"role": "user", "content": "x"}]}).encode(), key, "apply_chat_template")
        self.refused("a.json", b'[{"input_ids": [1, 2]}, 7]', "a.json#/1")
        self.refused("a.csv.gz", gzip.compress(b"1,2"), ".jsonl, .json or .npy")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
