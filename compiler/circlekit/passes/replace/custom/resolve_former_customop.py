# SPDX-License-Identifier: Apache-2.0
"""Custom operators that have become operators of the schema since."""

from __future__ import annotations

from circlekit.rewrite.rewrite import Rewrite


class ResolveFormerCustomOp(Rewrite):
    """broadcast_to(x, shape), custom  ==  broadcast_to(x, shape)."""

    name = "resolve_former_customop"

    before = """
        z = Custom("BroadcastTo", x, shape)
    """
    after = """
        z = BroadcastTo(x, shape)
    """
