# SPDX-License-Identifier: Apache-2.0
"""Remove redundant pairs of Quantize and Dequantize."""
