# SPDX-License-Identifier: Apache-2.0
"""Operators of control flow, state, detection and text; custom operators."""
