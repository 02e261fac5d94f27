# SPDX-License-Identifier: Apache-2.0
"""Rewriting: base classes of passes, and pictures (small graphs as text) with the matcher for them.

A pass is a named change of a model.  If a picture does not match, the matcher says why.  Of this package, a
pass in another package needs only the names in ``__all__``.  The definition of a subclass of Pass with a
``name`` registers the pass; ``circlekit.optimize`` then finds it by this name.
"""

from __future__ import annotations

from circlekit.rewrite.base import PASSES, Context, GraphPass, Option, Pass
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, Rules, condition

__all__ = ["PASSES", "Context", "GraphPass", "Match", "Option", "Pass", "Rewrite", "Rules", "condition"]
