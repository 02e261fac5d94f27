# SPDX-License-Identifier: Apache-2.0
"""ONE's drivers, onecc and the one-* commands, which call circlekit's functions."""
