# SPDX-License-Identifier: Apache-2.0
"""Passes that merge several operators into one, or fold factors and offsets into the weights of layers."""
