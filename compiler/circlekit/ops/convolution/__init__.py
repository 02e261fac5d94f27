# SPDX-License-Identifier: Apache-2.0
"""Convolutions and pooling of channels-last data; REDUCE_WINDOW and DILATE."""
