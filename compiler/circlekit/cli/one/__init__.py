# SPDX-License-Identifier: Apache-2.0
"""Commands with ONE's names, flags, words and exit codes."""
