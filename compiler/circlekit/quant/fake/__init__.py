# SPDX-License-Identifier: Apache-2.0
"""Fake quantization: operators that round to a quantization grid in a float model, and the way back."""
