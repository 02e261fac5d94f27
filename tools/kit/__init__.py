# SPDX-License-Identifier: Apache-2.0
"""Differential tests of every operator: models of one operator, run by LiteRT and by circlekit."""
