# SPDX-License-Identifier: Apache-2.0
"""The entry point of ``python -m circlekit``: the command ``circlekit``."""

import sys

from circlekit.cli.front_door import main

if __name__ == "__main__":
    sys.exit(main())
