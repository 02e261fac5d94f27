# SPDX-License-Identifier: Apache-2.0
"""ONE's drivers: onecc and the one-* commands.

They take ONE's options and print ONE's output; functions of circlekit do the work.
"""
