# SPDX-License-Identifier: Apache-2.0
"""Passes that say the same with other operators."""
