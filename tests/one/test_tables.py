# SPDX-License-Identifier: Apache-2.0
"""circlekit leaves at most as many operators as ONE left in recorded results, for each flag and after O1.

REFUSED and TWO_NAMES list the exceptions.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import circlekit
from circlekit.cli.circle2circle import main
from circlekit.errors import CirclekitError
from circlekit.io.write.save import to_bytes
from circlekit.ir.dtypes import f32, u8
from circlekit.ir.enums import Activation
from circlekit.ir.graph import Model
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.ir.verifier import verify
from circlekit.ops.matmul.dense import BatchMatMul, FullyConnected
from circlekit.passes.engine.legalize import legalize
from circlekit.passes.pipelines import pipeline_passes
from circlekit.recipes.load import load_recipe
from tests.conftest import SHARED, without
from tests.passes.kit import make_input

ONE_FILES = SHARED / "peer" / "one"
RECIPES = Path(__file__).parents[2] / "recipes" / "passes"

if not ONE_FILES.is_dir():
    pytestmark = pytest.mark.skip(reason=without("peer/one"))

Row = dict[str, str]


def rows_of(table: str) -> list[Row]:
    path = ONE_FILES / table
    if not path.is_file():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def load(name: str) -> Model:
    (path,) = ONE_FILES.glob(f"*Recipes/{name}/test.recipe")
    model = load_recipe(path)
    model.format = "circle"
    return model


def kinds(model: Model) -> Counter[str]:
    """Count the operators of the written model by ONE's names."""
    return Counter(map(kind, legalize(model, "circle").ops()))


def kind(op: Op) -> str:
    custom = getattr(op, "custom_code", None)
    return op.code if custom is None else f"{op.code}({custom})"


def counted(text: str) -> Counter[str] | None:
    """Return the counts of a cell such as ``ADD:1,CONV_2D:2``, or ``-`` for none; None if ONE failed."""
    if text == "-":
        return Counter()
    if not re.fullmatch(r"(?:[\w()]+:\d+,?)+", text):
        return None
    return Counter({kind: int(number) for kind, _, number in (k.rpartition(":") for k in text.split(","))})


# -- single flags ------------------------------------------------------------------------------


def outputs_of_one_value(model: Model) -> bool:
    """Return whether the two outputs, which have different names, come from equal operators."""
    first, second = (value.producer for value in model.main.outputs)
    assert first is not None
    assert second is not None
    operands = [[v.array().tolist() if v and v.is_const else v for v in op.inputs] for op in (first, second)]
    return first.attribute_items() == second.attribute_items() and operands[0] == operands[1]


def output_of_an_input(model: Model) -> bool:
    """Return whether an input would become an output if the operator were removed."""
    (op,) = model.main
    return op.inputs[0] in model.main.inputs and op.output in model.main.outputs


def bias_is_computed(model: Model) -> bool:
    """Return whether the bias, which ONE drops, is an input, so that it may differ from 0."""
    (op,) = model.main
    assert isinstance(op, FullyConnected)
    return op.bias in model.main.inputs


def activation_counts(model: Model) -> bool:
    """Return whether values change without the activation of the Mul.  ONE drops this activation."""
    inputs = [make_input(value, "normal") for value in model.main.inputs]
    (wanted,) = circlekit.run(model, inputs)
    inner = next(op for op in model.main if op.code == "MUL")
    inner.act = Activation.NONE  # type: ignore[attr-defined]  # every Mul has one
    (found,) = circlekit.run(model, inputs)
    return float(np.abs(found - wanted).max()) > 1e-3 * float(np.abs(wanted).max())


def no_such_product(model: Model) -> bool:
    """Assert that the operator that ONE creates does not accept these operands; return True."""
    (op,) = model.main
    assert isinstance(op, FullyConnected)
    assert (op.input.dtype, op.weights.dtype) == (f32, u8)
    product = BatchMatMul(Value("x", f32, (1, 64)), Value("w", u8, (8, 64)), adj_y=True)
    with pytest.raises(CirclekitError):
        product.kernel(np.ones((1, 64), np.float32), np.ones((8, 64), np.uint8))
    return True


REFUSED: dict[tuple[str, str], Callable[[Model], bool]] = {
    ("CSE_Quantize_000", "common_subexpression_elimination"): outputs_of_one_value,
    ("CSE_Transpose_000", "common_subexpression_elimination"): outputs_of_one_value,
    ("FakeQuant_000", "remove_fakequant"): output_of_an_input,
    ("FullyConnected_001", "replace_non_const_fc_with_batch_matmul"): bias_is_computed,
    ("FullyConnected_U8_000", "replace_non_const_fc_with_batch_matmul"): no_such_product,
    ("Net_Conv_Add_Mul_003", "replace_cw_mul_add_with_depthwise_conv"): activation_counts,
}
"""{(recipe, flag): function} for rows where ONE leaves fewer operators, or changes some and circlekit none.
The function shows that ONE's rewrite loses a name, changes a value, or makes an operator that cannot run."""

SINGLE = [row for row in rows_of("perpass.tsv") if counted(row["with"]) is not None]


def with_flag(row: Row, tmp_path: Path) -> tuple[Counter[str], bool]:
    """Return the operators after the flag, and whether it changed anything."""
    model, flag = load(row["recipe"]), row["flag"]
    if flag == "exp_disable_sep_transposeconv_actfunc":  # an option, not a pass
        before, source, out = kinds(model), tmp_path / "net.circle", tmp_path / "out.circle"
        source.write_bytes(to_bytes(model))
        assert main([str(source), str(out), f"--{flag}"]) == 0
        after = Counter(map(kind, circlekit.load(out).ops()))
        return after, after != before
    report = circlekit.optimize(model, [flag])
    return kinds(model), bool(report.changes)


@pytest.mark.parametrize("row", SINGLE, ids=lambda row: f"{row['recipe']}-{row['flag']}")
def test_flag_leaves_at_most_the_operators_of_one(row: Row, tmp_path: Path) -> None:
    refused = REFUSED.get((row["recipe"], row["flag"]))
    before, theirs = counted(row["without"]), counted(row["with"])
    assert theirs is not None
    ours, changed = with_flag(row, tmp_path)
    more = ours.total() > theirs.total()
    only_adds = before is not None and not before - theirs  # a change that only adds operators may be omitted
    behind = more or not (changed or only_adds)
    assert behind == (refused is not None), f"ours {dict(ours)}, ONE's {dict(theirs)}"
    assert refused is None or refused(load(row["recipe"]))


def test_refused_rows_are_in_the_table() -> None:
    assert REFUSED.keys() <= {(row["recipe"], row["flag"]) for row in SINGLE}


# -- O1 ----------------------------------------------------------------------------------------

TWO_NAMES = {"CSE_Quantize_000", "CSE_Transpose_000"}
"""Recipes whose two outputs are equal.  circlekit keeps both names, which takes a copy; ONE loses a name."""


@pytest.mark.parametrize("row", rows_of("o1.tsv"), ids=lambda row: row["recipe"])
def test_o1_leaves_at_most_the_operators_of_one(row: Row) -> None:
    model = load(row["recipe"])
    if verify(model):
        pytest.skip(f"unsound: {verify(model)[0]}")
    circlekit.optimize(model, "O1")
    ours = sum(kinds(model).values())
    if row["after_peer_O1"].isdigit():
        theirs = int(row["after_peer_O1"]) + (row["recipe"] in TWO_NAMES)
        assert ours <= theirs, f"{dict(kinds(model))}, ONE's {row['kinds_after']}"
    else:
        assert row["after_peer_O1"] == "fails"


def test_o1_has_the_passes_of_o1_of_one() -> None:
    """O1 has each pass with a Y in the tables of ``features.md``, or leaves no work for this pass."""
    text = (SHARED / "peer" / "features.md").read_text()
    cells = re.findall(r"^\| ([a-z]\w+(?: / _\w+)*) \| Y \|", text, re.MULTILINE)
    names = [name for cell in cells for name in re.findall(r"\w+", cell)]
    assert len(names) == 61
    assert "fuse_batchnorm_with_conv" in names
    whole = {f"fuse_batchnorm_with{name}" if name.startswith("_") else name for name in names}
    missing = whole.difference(pipeline_passes("O1"))
    for name in missing:
        model = load_recipe(RECIPES / f"{name}.ck")
        circlekit.optimize(model, "O1")
        assert not circlekit.optimize(model, [name]).changes, f"O1 leaves work for {name}, which it lacks"
