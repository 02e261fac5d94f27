# SPDX-License-Identifier: Apache-2.0
"""Rewriting: pictures (graphs as text), their matcher, which says why they do not match, and base classes.

A pass of your own needs only these names: a class with a ``name`` is known to ``circlekit.optimize`` from
the moment that it is defined, in whatever package.
"""

from __future__ import annotations

from circlekit.rewrite.base import PASSES, Context, GraphPass, Option, Pass
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, Rules, condition

__all__ = ["PASSES", "Context", "GraphPass", "Match", "Option", "Pass", "Rewrite", "Rules", "condition"]
