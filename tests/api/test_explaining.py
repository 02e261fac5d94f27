# SPDX-License-Identifier: Apache-2.0
"""``explain`` and ``explain_op``: the format for which they run passes, and invalid models."""

from __future__ import annotations

from typing import Any

import pytest

import circlekit
from circlekit.errors import ModelError
from circlekit.rewrite.base import PASSES, Context, Pass

NET = "graph main(%x: f32[2,3]) -> %y {\n  %y = Relu(%x)\n}"


@pytest.mark.parametrize("own", ["circle", "tflite"])
@pytest.mark.parametrize("format", [None, "circle", "tflite"])
def test_the_format_is_that_of_the_model_if_none_is_given(
    own: str, format: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    class Watch(Pass):
        """Note the formats for which it runs."""

        def run(self, model: circlekit.Model, context: Context) -> int:
            seen.append(context.format)
            return 0

    monkeypatch.setattr(Watch, "name", "watch")
    monkeypatch.setitem(PASSES, "watch", Watch)
    model = circlekit.parse(NET)
    model.format = own
    arguments: dict[str, Any] = {} if format is None else {"format": format}
    circlekit.explain(model, "watch", **arguments)
    assert set(seen) == {format or own}
    seen.clear()
    circlekit.explain_op(model, "RELU", **arguments)
    assert set(seen) == {format or own}
    assert model.format == own


def test_a_pass_that_fails_on_an_invalid_model_says_what_is_wrong_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Fails(Pass):
        """Rely on a rule that the model breaks."""

        def run(self, model: circlekit.Model, context: Context) -> int:
            raise IndexError("tuple index out of range")

    monkeypatch.setattr(Fails, "name", "fails")
    monkeypatch.setitem(PASSES, "fails", Fails)
    model = circlekit.parse(NET.replace("Relu(%x)", "Relu(%x) : f32[2]"))
    for explain in (lambda: circlekit.explain(model, "fails"), lambda: circlekit.explain_op(model, "%y")):
        with pytest.raises(ModelError, match="the passes failed on an invalid model: %y has shape"):
            explain()
    valid = circlekit.parse(NET)
    with pytest.raises(IndexError):
        circlekit.explain(valid, "fails")
