# SPDX-License-Identifier: Apache-2.0
"""Passes that change the order of operators."""
