# SPDX-License-Identifier: Apache-2.0
"""Load and save models for ONE's commands, with errors in ONE's words."""

from __future__ import annotations

from circlekit.api.models import load, save
from circlekit.api.structure_checks import check_structure
from circlekit.io.write.save import format_of
from circlekit.ir.graph import Model
from circlekit.toolchain.one_words import one_words


def load_model(path: str) -> Model:
    """Return the model at ``path``; errors about the file have ONE's messages (see ``one_words``)."""
    with one_words(path, ""):
        return load(path)


def save_model(model: Model, path: str) -> None:
    """Check ``model`` and write it to ``path``, as circle unless the extension says TFLite.

    Raise the errors of ``check_structure`` if the model is not valid.  Errors about the file have ONE's
    messages (see ``one_words``).
    """
    check_structure(model, path)
    with one_words("", path):
        save(model, path, format_of(path) or "circle")
