# SPDX-License-Identifier: Apache-2.0
"""The intermediate representation (IR) of models: graphs of operators and values, of no file format."""
