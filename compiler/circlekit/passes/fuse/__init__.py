# SPDX-License-Identifier: Apache-2.0
"""Passes that merge several operators into fewer."""
