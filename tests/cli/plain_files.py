"""The safetensors and .npy formats by their definitions, with nothing but Python's standard library."""

import json
import math
import pathlib
import struct

SIZE = {"BF16": 2, "F16": 2, "F32": 4, "U8": 1, "I8": 1, "I32": 4, "F8_E4M3": 1, "F8_E5M2": 1, "I64": 8}


def read_file(path):
    """name -> (dtype, shape, bytes) in the header's order, and the metadata."""
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + length])
    data = raw[8 + length :]
    metadata = header.pop("__metadata__", None)
    tensors = {}
    end = 0
    for name, entry in header.items():
        begin, stop = entry["data_offsets"]
        assert begin == end, f"{name}: gap or overlap"
        assert stop - begin == math.prod(entry["shape"]) * SIZE[entry["dtype"]], name
        tensors[name] = (entry["dtype"], entry["shape"], data[begin:stop])
        end = stop
    assert end == len(data)
    return tensors, metadata


def write_file(path, tensors, metadata=None):
    """The way back, from name -> (dtype, shape, bytes)."""
    header, data = {"__metadata__": metadata} if metadata else {}, b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def floats(tensor):
    dtype, _, data = tensor
    if dtype == "F32":
        return struct.unpack(f"<{len(data) // 4}f", data)
    assert dtype == "BF16"
    wide = bytearray(2 * len(data))
    wide[2::4], wide[3::4] = data[0::2], data[1::2]
    return struct.unpack(f"<{len(data) // 2}f", wide)


def sqnr(x, y):
    noise = sum((a - b) ** 2 for a, b in zip(x, y))
    return math.inf if noise == 0 else 10 * math.log10(sum(a * a for a in x) / noise)


def write_ids(path, samples):
    shape = (len(samples), len(samples[0]))
    header = "{'descr': '<i8', 'fortran_order': False, 'shape': %s, }" % (shape,)
    header += " " * (-(len(header) + 11) % 64) + "\n"
    flat = [i for sample in samples for i in sample]
    path.write_bytes(
        b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
        + struct.pack(f"<{len(flat)}q", *flat)
    )


def sanitized(program):
    """Whether the address sanitizer is in the program: its own memory is no measure of the program's."""
    return b"__asan_init" in pathlib.Path(program).read_bytes()
