# SPDX-License-Identifier: Apache-2.0
"""Keep models in memory between the steps of onecc.

The command onecc runs several drivers, its steps, in one process.  So a step need not read a file that an
earlier step wrote.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence

from circlekit.ir.graph import Model
from circlekit.toolchain.user_paths import real_path

Stamp = tuple[int, int, int, int]
"""(device, inode, size, time of the last change) of a file."""


class HandedModels:
    """Models in memory.  Each was written to a file, and is found by the real path of this file.

    A model is kept until the last step that reads its file.  It is used only if the file has not changed.
    """

    def __init__(self) -> None:
        self._later: Collection[str] = ()
        self._models: dict[str, tuple[Model, Stamp | None]] = {}

    def begin_step(self, later: Sequence[str]) -> None:
        """Begin a step; ``later``: the paths of the models that the steps after it read."""
        self._later = {real_path(path) for path in later}

    def put(self, model: Model, path: str) -> None:
        """Keep ``model`` if a later step reads the file ``path``.

        The caller has just written ``model`` to ``path`` as circle, and must not change ``model`` any more.
        """
        if real_path(path) in self._later:
            from circlekit.io.write.saved_format import assume_format  # slow; most drivers need no model

            assume_format(model, "circle")  # as if the model were loaded from the file
            self._models[real_path(path)] = (model, _stamp(path))

    def take(self, path: str) -> Model | None:
        """Return the model that was written to ``path``; None if it must be read from the file.

        The caller may change the model.
        """
        from circlekit.ir.clone import clone  # slow; most drivers need no model

        model, stamp = self._models.pop(real_path(path), (None, None))
        if model is None or stamp != _stamp(path):
            return None
        if real_path(path) in self._later:  # keep a copy for the later step
            self._models[real_path(path)] = (clone(model), stamp)
        model.source = path
        return model


def _stamp(path: str) -> Stamp | None:
    """Return the stamp of the file ``path``; it differs after a change.  Return None if there is no file."""
    try:
        status = os.stat(real_path(path))  # noqa: PTH116  # the path is a string
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
