# SPDX-License-Identifier: Apache-2.0
"""ONE's recipe language, ``test.recipe``: read protobuf text as a tree of messages, and write it.

A tree is a dict {field: value} of a message; the key "" holds the name of the message.  A message that stands
for a table of the schema has the name of the table.
"""
