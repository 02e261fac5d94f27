# SPDX-License-Identifier: Apache-2.0
"""Batch, layer, instance and RMS normalizations: recognize, move and fuse them."""
