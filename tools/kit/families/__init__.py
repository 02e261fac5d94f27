# SPDX-License-Identifier: Apache-2.0
"""How operators get operands: from their declarations, or by a function for a family of operators."""

from tools.kit.families import dense, windows
from tools.kit.families.base import FAMILIES, codes, draw_case

__all__ = ["FAMILIES", "codes", "dense", "draw_case", "windows"]
