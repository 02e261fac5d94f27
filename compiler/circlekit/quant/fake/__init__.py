# SPDX-License-Identifier: Apache-2.0
"""Fake quantization: insert operators that round floats to a quantization grid, or remove such operators."""
