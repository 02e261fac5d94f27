# SPDX-License-Identifier: Apache-2.0
"""Optimize circle and TFLite models, every rewrite proven by value."""
