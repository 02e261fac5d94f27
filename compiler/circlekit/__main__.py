# SPDX-License-Identifier: Apache-2.0
"""python -m circlekit."""

import sys

from circlekit.cli.front_door import main

sys.exit(main())
