# SPDX-License-Identifier: Apache-2.0
"""Fold per-channel factors and offsets into the weights and bias of linear operators."""
