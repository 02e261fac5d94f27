# SPDX-License-Identifier: Apache-2.0
"""Passes that remove operators: those without effect, and those whose effect another operator undoes."""
