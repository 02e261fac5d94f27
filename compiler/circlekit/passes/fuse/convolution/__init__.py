# SPDX-License-Identifier: Apache-2.0
"""Fusions around convolutions: slices, space-to-batch, pixel shuffle."""
