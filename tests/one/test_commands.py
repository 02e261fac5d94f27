# SPDX-License-Identifier: Apache-2.0
"""circle-verify and tfl-verify pass every recipe of ONE; ``ModelFile`` agrees with other readers.

Compared are the names of the tensors and the number of operators.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import tflite
from circle_schema.v0_10 import circle

from circlekit.cli import inspection
from circlekit.io.write.save import to_bytes
from circlekit.recipes.dredd_cases import Case
from circlekit.recipes.load import load_recipe
from circlekit.recipes.model_file import ModelFile


def test_verify_passes_and_other_readers_find_the_same_tensors_and_operators(
    one_recipe: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert one_recipe.recipe is not None
    model = load_recipe(one_recipe.recipe)
    path = tmp_path / f"model.{model.format}"
    path.write_bytes(to_bytes(model))
    verify = {"circle": inspection.circle_verify, "tflite": inspection.tfl_verify}[model.format]
    assert verify([str(path)]) == 0
    assert capsys.readouterr().out.count("PASS") == 1
    facts = ModelFile(path)
    root = {"circle": circle.Model.Model, "tflite": tflite.Model}[model.format]
    read = root.GetRootAs(path.read_bytes(), 0)
    graphs = [read.Subgraphs(i) for i in range(read.SubgraphsLength())]
    tensors = [graph.Tensors(i) for graph in graphs for i in range(graph.TensorsLength())]
    assert [name for name, _ in facts.tensor_shapes()] == [t.Name().decode() for t in tensors]
    assert len(facts.operators()) == sum(graph.OperatorsLength() for graph in graphs)
