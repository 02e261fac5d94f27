# SPDX-License-Identifier: Apache-2.0
"""Fake quantization: put operators that round to a quantization grid into a float model, or take them out."""
