# SPDX-License-Identifier: Apache-2.0
"""Quantization in three steps: observe ranges, choose a plan, apply the plan.

Ranges and plans are data that a person can read and edit between the steps.
"""
