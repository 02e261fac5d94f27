# SPDX-License-Identifier: Apache-2.0
"""Convolutions, pooling and reductions over sliding windows of channels-last data."""
