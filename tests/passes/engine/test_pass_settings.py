# SPDX-License-Identifier: Apache-2.0
"""Settings of passes that a caller of the Python functions gives."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import circlekit
from circlekit.errors import ModelError, RewriteError
from circlekit.ir.text import parse_model, print_model
from circlekit.passes.engine.pass_settings import checked_settings
from circlekit.rewrite.base import PASSES, Context, Option, Pass

CHAIN = """
graph main(%x: f32[2]) -> %y {
  %a = Neg(%x)
  %y = Relu(%a)
}
"""


@pytest.mark.parametrize("value", ["a", "%a", ["a"], ("a",)])
def test_names_are_a_string_or_a_list(value: object) -> None:
    model = parse_model(CHAIN)
    circlekit.optimize(model, ["change_outputs"], settings={"change_outputs": value})
    assert [output.name for output in model.main.outputs] == ["a"]


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("change_outputs", 3, "expected a list of strings, got 3"),
        ("change_outputs", ["y", 3], "expected a list of strings, got ['y', 3]"),
        ("change_outputs", "", "expected names separated by commas, got ''"),
        ("sparsify_tensor", ["w"], "expected a string, got ['w']"),
        ("sparsify_block_size", [2.5], "expected a list of integers, got [2.5]"),
        ("sparsify_format", ["d", "q"], "expected d (dense) or s (sparse), separated by commas, got 'd,q'"),
        ("freeze_decay", 1.5, "expected a number from 0 to below 1, got 1.5"),
        ("freeze_decay", "much", "expected a number from 0 to below 1, got much"),
        ("freeze_warmup", True, "expected an integer, got True"),
        ("freeze_warmup", "few", "expected an integer of 0 or more, got 'few'"),
        ("freeze_warmup", -1, "expected an integer of 0 or more, got '-1'"),
        ("freeze_batchnorm", 3, "expected the path of an HDF5 file or a list of records, got int"),
    ],
)
def test_a_wrong_value_is_refused_before_any_work(name: str, value: object, sentence: str) -> None:
    model = parse_model(CHAIN)
    before = print_model(model)
    passes = ["remove_dead", "change_outputs", "sparsify_tensor", "freeze_batchnorm"]
    with pytest.raises(RewriteError, match=re.escape(f"{name}: {sentence}")):
        circlekit.optimize(model, passes, settings={name: value})
    with pytest.raises(RewriteError, match=re.escape(f"{name}: {sentence}")):
        circlekit.explain(model, settings={name: value})
    assert print_model(model) == before


@pytest.mark.parametrize("settings", ["change_outputs", [("change_outputs", "a")]])
def test_settings_are_a_mapping(settings: dict[str, object]) -> None:
    for call in (circlekit.optimize, circlekit.explain):
        with pytest.raises(ModelError, match="expected a mapping from settings to values, got"):
            call(parse_model(CHAIN), settings=settings)


def test_values_become_those_of_the_command_line() -> None:
    settings = {"freeze_decay": "0.5", "freeze_warmup": np.int64(3), "sparsify_block_size": "4,1"}
    expected = {"freeze_decay": 0.5, "freeze_warmup": 3, "sparsify_block_size": [4, 1]}
    assert checked_settings(settings | {"sparsify_tensor": None}) == expected
    assert checked_settings({"change_outputs": ["a,b"], "sparsify_block_map": []}) == {
        "change_outputs": ["a,b"],  # a comma in a name
        "sparsify_block_map": [],
    }


def test_switches_and_parsers_of_other_types(monkeypatch: pytest.MonkeyPatch) -> None:
    class Plugin(Pass):
        """Do nothing."""

        options = (
            Option("fast", "a switch"),
            Option("base", "a number", "N", partial(int, base=2)),
            Option("path", "a file", "FILE", Path),
        )

        def run(self, model: circlekit.Model, context: Context) -> int:
            return 0

    monkeypatch.setitem(PASSES, "plugin", Plugin)
    assert checked_settings({"fast": True, "base": "11"}) == {"fast": True, "base": 3}
    assert checked_settings({"base": 11}) == {"base": 11}
    assert checked_settings({"path": "a"}) == checked_settings({"path": Path("a")}) == {"path": Path("a")}
    with pytest.raises(RewriteError, match="fast: expected True or False, got 'yes'"):
        checked_settings({"fast": "yes"})
