# SPDX-License-Identifier: Apache-2.0
"""Make damaged files that are not models: pipelines, rules, test lists, and HDF5 files.

Hostile structures of HDF5 (links, huge shapes, odd dtypes) are in tests/equivalence/test_hdf5_hostile.py.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from circlekit.equivalence.data_files import hdf5
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


def valid_hdf5() -> bytes:
    """Return a file with inputs of the model that reads it."""
    inputs = (("x", "<f4", (2, 3)), ("y", "<i4", (2,)), ("z", "<f4", (4,)))
    return hdf5.encode([(name, np.ones(shape, dtype)) for name, dtype, shape in inputs])


def _text(rng: random.Random, start: Sequence[str], words: Sequence[str]) -> tuple[bytes, list[str]]:
    text, done = mutate_text(rng.choice(start), start, rng, words)
    data = text.encode("utf-8", "surrogatepass")
    if rng.random() < 0.1:
        data, more = mutate_bytes(data, rng.choice(start).encode(), rng)
        done += more
    return data, done
