# SPDX-License-Identifier: Apache-2.0
"""Batch normalization: recognize it, move it towards a linear operator, freeze its statistics."""
