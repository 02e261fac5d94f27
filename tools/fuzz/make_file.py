# SPDX-License-Identifier: Apache-2.0
"""Make damaged files that are not models: pipelines, rules, test lists, numpy files, raw inputs."""

from __future__ import annotations

import random
from collections.abc import Sequence
from io import BytesIO
from typing import Any

import numpy as np

from circlekit.io.read.load import load_bytes
from circlekit.ir.dtypes import DType
from circlekit.ops.constant_storage import encode_strings
from tools.fuzz.mutate_bytes import mutate_bytes
from tools.fuzz.mutate_text import mutate_text

PIPELINES = (
    'passes = ["O1", "replace_sub_with_add"]\ndisable = ["fuse_rope"]\n\n[settings]\nchange_outputs = "a"\n',
    'passes = ["fold_constants", "freeze-batchnorm"]\n[settings]\nfreeze_decay = 0.9\nfreeze_warmup = 3\n',
    'passes = ["sparsify_tensor"]\nsettings = {sparsify_tensor = "w", sparsify_traversal_order = [0, 1], '
    'sparsify_format = "ds", sparsify_block_size = [1, 1], sparsify_block_map = "0,1"}\n',
    'passes = []\ndisable = []\nsettings = {}\n',
    'passes = ["remove_nodes_of"]\nsettings.remove_nodes_of = "x"\n',
)  # fmt: skip
TOML_WORDS = (
    "passes", "disable", "settings", "=", "[", "]", "[[settings]]", "[settings]", '"O1"', '"""', "'''",
    "1979-05-27T07:32:00Z", "0x" + "f" * 5000, "9" * 5000, "1e400", "nan", "-inf", "true", "0o7", "{a = 1}",
    "a.b.c = 1", "[" * 3000, "{a=" * 2000, "a." * 3000 + "b = 1", '"\\uD800"', "\0", '"../../etc/passwd"',
    '"/dev/zero"', '"$(touch x)"', "freeze_batchnorm", "change_outputs", "\n", "#", '"secret.h5"', '""',
    "[[1], [2]]", "[1, 'a']", "sparsify_block_size", "sparsify_format", '"%x"', "-1", "0",
)  # fmt: skip
RULES = (
    "RULE \"VERIFY_FILE_FORMAT\" $(verify_file_format) '=' 1\n\nRULE \"MEAN\" $(op_count MEAN) '=' 2 # two\n",
    'RULE "TYPE" $(tensor_dtype ifm) = UINT8\nRULE "SHAPE" $(tensor_shape x) \'=\' "2 3"\n',
    "RULE 'SIZE' $(file_size) '<' 100000\nRULE \"ALL\" $(all_op_count) \\\n '>=' 3\n",
    "RULE \"VERSION\" $(op_version CONV_2D) '!=' 1\nRULE \"CONST\" $(const_count a) '=' 0\n",
)
LISTS = (
    "Add(Net_000 PASS fuse_gelu fold_constants)\n# comment\neval(Net_001 fuse_bcq)\n",
    "recipe\tpasses\nNet_000\tfuse_gelu,fold_constants\nNet_001\n",
)
RULE_WORDS = (
    "RULE", "$(", ")", "'", '"', "\\", "`touch x`", "$(touch x)", "$HOME", ";", "|", "&&", ">x", "<", "\n",
    "\\\n", "Add(", "eval(", "PASS", "DTYPE", "recipe\tpasses", "\t", "../../x", "/etc/passwd", "file_size",
    "op_count", "tensor_shape", "const_count", "9" * 5000, "-0", "²", "(" * 3000, "'" * 3001, '"' * 2999,
    "x" * 60000, "\0", "\x1b[2J", "#",
)  # fmt: skip
NUMPY_RECIPE = """
    operand {{ name: "x" type: {type} shape {{ dim: {count} }} }}
    operand {{ name: "w" type: {type} shape {{ dim: {count} }} filler {{ tag: "file" arg: "w.npy" }} }}
    operand {{ name: "y" type: {type} shape {{ dim: {count} }} }}
    operation {{ type: "Add" input: "x" input: "w" output: "y" add_options {{ activation: NONE }} }}
    input: "x"
    output: "y"
"""
NUMPY_HEADERS = (
    "{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }",
    "{'descr': '|O', 'fortran_order': False, 'shape': (4,)}",
    "{'descr': '|V0', 'fortran_order': False, 'shape': (0,)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (-4,)}",
    "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (4,)}",
    "{'descr': ('<f4', (4,)), 'fortran_order': False, 'shape': ()}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (True, 4)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (" + "9" * 4400 + ",)}",
    "{'descr': {'names': ['a'], 'formats': ['<f4'], 'offsets': [-4]}, 'fortran_order': False, 'shape': (4,)}",
    "__import__('os').system('touch x')", "(" * 300, "-" * 5000 + "1", "[" * 9000, '"""', "1 if 1 else",
    "{1: 2, 'a': 3, (): 4}", "{[]: 1}", "\xe9", "",
)  # fmt: skip

Beside = tuple[tuple[str, bytes], ...]
"""Names and contents of files in the same folder."""


def make_toml(rng: random.Random) -> tuple[bytes, list[str]]:
    return _text(rng, PIPELINES, TOML_WORDS)


def make_rules(rng: random.Random) -> tuple[bytes, list[str]]:
    return _text(rng, RULES, RULE_WORDS)


def make_list(rng: random.Random) -> tuple[bytes, str, list[str]]:
    """Return a list of dredd tests, its suffix, and what was done."""
    number = rng.randrange(2)
    data, done = _text(rng, LISTS[number:] if rng.random() < 0.9 else LISTS, RULE_WORDS)
    return data, (".lst", ".tsv")[number], done


def _text(rng: random.Random, start: Sequence[str], words: Sequence[str]) -> tuple[bytes, list[str]]:
    text, done = mutate_text(rng.choice(start), start, rng, words)
    data = text.encode("utf-8", "surrogatepass")
    if rng.random() < 0.1:
        data, more = mutate_bytes(data, rng.choice(start).encode(), rng)
        done += more
    return data, done


def make_npy(rng: random.Random) -> tuple[bytes, list[str], Beside]:
    """Return a recipe with a constant from a numpy file, what was done, and that file."""
    kind, name = rng.choice((("<f4", "FLOAT32"), ("<i4", "INT32"), ("<i8", "INT64"), ("|u1", "UINT8")))
    name = name if rng.random() < 0.95 else "STRING"
    recipe = NUMPY_RECIPE.format(type=name, count=rng.choice((4, 4, 4, 0, 1))).encode()
    if rng.random() < 0.5:
        stream = BytesIO()
        np.lib.format.write_array(stream, np.arange(4).astype(kind), rng.choice(((1, 0), (2, 0), (3, 0))))
        data, done = mutate_bytes(stream.getvalue(), NUMPY_HEADERS[0].encode(), rng)
        return recipe, done, (("w.npy", data),)
    header, done = rng.choice(NUMPY_HEADERS), ["header"]
    if rng.random() < 0.5:
        words = ("'", "(", ")", ",", "0", "-1", "None", "b''", "\\", "\n ", "1j")
        header, done = mutate_text(header or "x", NUMPY_HEADERS, rng, words)
    raw = header.encode("utf-8", "surrogatepass")
    version = rng.choice((1, 1, 2, 3, 9))
    size = len(raw).to_bytes(2 if version == 1 else 4, "little") if len(raw) < 65536 else b"\xff\xff"
    data = b"\x93NUMPY" + bytes((version, 0)) + size + raw + b"\0" * rng.choice((0, 4, 16, 32))
    return recipe, done, (("w.npy", data),)


def make_raw(model: bytes, rng: random.Random) -> tuple[Beside, list[str]]:
    """Return a file ``in.N`` for each input of ``model``, mostly of the right size, and what was done."""
    files, done = [], []
    for number, value in enumerate(load_bytes(model).main.inputs):
        kind = rng.choice(("bits", "small", "edges", "size", "absent")[: 5 if rng.random() < 0.1 else 3])
        dims = [rng.choice((0, 1, 2, 3)) if d is None else d for d in value.shape or ()]
        data = _elements(value.dtype, min(int(np.prod(dims, dtype=np.int64)), 1 << 16), kind, rng)
        if kind == "size":
            data = data[: rng.randrange(len(data) + 1)] + b"\0" * rng.choice((0, 1, 4))
        if kind == "bits" and value.dtype is DType.STRING:
            data, _ = mutate_bytes(data, data[::-1], rng)
        if kind != "absent":
            files.append((f"in.{number}", data))
        done.append(kind)
    return tuple(files), done


def _elements(dtype: DType, count: int, kind: str, rng: random.Random) -> bytes:
    if dtype is DType.STRING:
        texts = (b"", b"a", b"\xff\xfe", b"1e400", b"nan", b"x" * 3000)
        return bytes(encode_strings([rng.choice(texts) for _ in range(min(count, 99))]))
    numpy: Any = np.dtype(np.uint8) if dtype.numpy is None else dtype.numpy
    if kind in ("bits", "size"):
        return rng.randbytes(count * numpy.itemsize)
    numbers: tuple[float, ...] = (0, 1, 2, -1, 3)
    if kind == "edges":
        numbers = (0, -1, 2**31 - 1, -(2**31), 2**62, 1e30, np.nan, np.inf, -np.inf)
    with np.errstate(all="ignore"):
        return np.array([rng.choice(numbers) for _ in range(count)], np.float64).astype(numpy).tobytes()
