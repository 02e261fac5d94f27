# SPDX-License-Identifier: Apache-2.0
"""The arithmetic that quantized kernels share: fixed point, tables, output stages."""
