# SPDX-License-Identifier: Apache-2.0
"""Measure which operators, in which forms, LiteRT, its XNNPACK delegate and onert run."""
