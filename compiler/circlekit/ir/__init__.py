# SPDX-License-Identifier: Apache-2.0
"""The intermediate representation (IR): models, graphs, operators and values, of any file format."""
