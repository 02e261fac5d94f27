# SPDX-License-Identifier: Apache-2.0
"""ONE's recipe language, ``test.recipe``: read protobuf text as a tree of the schema's tables, and write it.

A tree is a dict {field: value} of a table; the key "" holds the name of the table.
"""
