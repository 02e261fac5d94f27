# SPDX-License-Identifier: Apache-2.0
"""Matrix products: fully connected, batch matmul, attention; layers with binary-coded weights."""
