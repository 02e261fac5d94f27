# SPDX-License-Identifier: Apache-2.0
"""Make what commands print: text for terminals, progress, summaries, explanations, JUnit XML."""
