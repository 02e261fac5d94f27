# SPDX-License-Identifier: Apache-2.0
"""Passes that replace operators by equivalent ones, or change the interface or the storage of constants."""
