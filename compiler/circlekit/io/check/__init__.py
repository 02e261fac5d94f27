# SPDX-License-Identifier: Apache-2.0
"""Every violated rule of a model file, each with its path in the file."""
