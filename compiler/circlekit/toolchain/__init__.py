# SPDX-License-Identifier: Apache-2.0
"""ONE's drivers: onecc and the one-* commands, with ONE's options and output and circlekit's functions."""
