# SPDX-License-Identifier: Apache-2.0
"""Helpers that several passes share: conditions, regions of a graph, constant arithmetic."""
