# SPDX-License-Identifier: Apache-2.0
"""Quantize a model: prepare the float model, choose a plan, apply it."""

from __future__ import annotations
