# SPDX-License-Identifier: Apache-2.0
"""Fixed-point and table arithmetic that quantized kernels share."""
