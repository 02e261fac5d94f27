# SPDX-License-Identifier: Apache-2.0
"""Commands that divide, cut, connect and resize models."""
