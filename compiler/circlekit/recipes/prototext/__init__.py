# SPDX-License-Identifier: Apache-2.0
"""ONE's recipe language, ``test.recipe`` (a model as protobuf text): read recipes and write them.

A recipe is read as a tree of messages.  The tree of a message is a dict {field: value}; the key "" holds the
name of the message.  A message that stands for a table of the schema has the name of the table.
"""
