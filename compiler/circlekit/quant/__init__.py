# SPDX-License-Identifier: Apache-2.0
"""Quantization in three steps: observe ranges, choose a plan, apply the plan.

A plan says how each tensor and operator is quantized.  Ranges and plans can be saved as files, which a
person can read and edit between the steps.
"""
