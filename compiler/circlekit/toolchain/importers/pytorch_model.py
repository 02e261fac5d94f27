# SPDX-License-Identifier: Apache-2.0
"""Write an exported PyTorch program (.pt2) as circle; runs as a program of its own, in any Python with tico.

pytorch_model.py INPUT OUTPUT
"""

from __future__ import annotations

import sys

MISSING = 3
"""Exit code without torch or tico."""


def main() -> int:
    """Convert the program that the command line names; return the exit code."""
    source, target = sys.argv[1:]
    try:
        import tico  # of the converter
        import torch  # of the converter
    except ModuleNotFoundError as error:
        print(error, file=sys.stderr)
        return MISSING
    try:
        tico.convert_from_exported_program(torch.export.load(source)).save(target)
    except Exception as error:  # whatever the converter raises becomes one line
        print(f"tico: {type(error).__name__}: {error}", file=sys.stderr)
        return 255
    return 0


if __name__ == "__main__":
    sys.exit(main())
