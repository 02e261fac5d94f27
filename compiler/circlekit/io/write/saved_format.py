# SPDX-License-Identifier: Apache-2.0
"""After a model was saved, give the model in memory the format and the operator codes of the new file."""

from __future__ import annotations

from dataclasses import replace

from circlekit.io.origin import NO_ORIGIN, Origin
from circlekit.io.schema import TFLITE_VERSION
from circlekit.io.write.save_ops import OpSaver
from circlekit.ir.graph import Model
from circlekit.ir.op import OpaqueOp


def assume_format(model: Model, fmt: str) -> None:
    """Give ``model`` the format ``fmt``, the operator codes and the version of the file just saved.

    If ``model`` is saved again later, it gives the same
    bytes as a model that was loaded from the file.
    """
    origin: Origin = model.extra.get("origin") or NO_ORIGIN
    saver = OpSaver(fmt, origin, model)
    indices = [(op, saver.code(op)) for op in model.ops()]  # also collects the codes in ``saver``
    written = sorted(saver.used | saver.origin.unused_codes)
    new_index = {old: new for new, old in enumerate(written)}
    for op, index in indices:
        op.extra["stored_code"] = new_index[index]
        op.version = saver.codes[index].get("version", 1)
        if isinstance(op, OpaqueOp):
            op.extra["stored_version"] = op.version
    for value in (v for graph in model.graphs for v in graph.values() if not saver.keeps_format):
        # a shape_signature without -1 only repeats the shape; it is not written if the format changes
        if all(d >= 0 for d in value.extra.get("shape_signature", ())):
            value.extra.pop("shape_signature", None)
    if fmt == "tflite" and origin.format != fmt:
        model.version = TFLITE_VERSION  # as in the file
    model.extra["origin"] = replace(
        origin,
        format=fmt,
        codes=tuple(saver.codes[index] for index in written),
        unused_codes=frozenset(new_index[index] for index in saver.origin.unused_codes),
    )
    model.format = fmt
