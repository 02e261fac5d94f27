# SPDX-License-Identifier: Apache-2.0
"""Models of one operator for every combination of dtypes and quantization that its declaration allows."""
