# SPDX-License-Identifier: Apache-2.0
"""Quantization in three steps with readable data between them: observe ranges, choose a plan, apply it."""
