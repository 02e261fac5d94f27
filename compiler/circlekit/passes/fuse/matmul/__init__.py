# SPDX-License-Identifier: Apache-2.0
"""Fusions around matrix products: fully connected layers, BATCH_MATMUL, binary codes, rotary embedding."""
