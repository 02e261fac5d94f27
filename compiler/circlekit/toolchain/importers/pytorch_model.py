# SPDX-License-Identifier: Apache-2.0
"""Write an exported PyTorch program (.pt2) as circle.

    pytorch_model.py INPUT OUTPUT

This is a program of its own, for any Python that has tico.
"""

from __future__ import annotations

import sys

MISSING = 3
"""The exit code if torch or tico is not installed."""


def main() -> int:
    """Convert the program that the command line names; return the exit code."""
    source, target = sys.argv[1:]
    try:
        import tico  # installed with the converter
        import torch  # installed with the converter
    except ModuleNotFoundError as error:
        print(error, file=sys.stderr)
        return MISSING
    try:
        tico.convert_from_exported_program(torch.export.load(source)).save(target)
    except Exception as error:  # any error of the converter is shown without a traceback
        print(f"tico: {type(error).__name__}: {error}", file=sys.stderr)
        return 255
    return 0


if __name__ == "__main__":
    sys.exit(main())
