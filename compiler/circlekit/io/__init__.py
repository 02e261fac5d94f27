# SPDX-License-Identifier: Apache-2.0
"""Read and write model files in both formats, driven by the tables of the schema.

bytes --flatbuffer_decoder--> tree --load--> Model --save--> tree --flatbuffer_encoder--> bytes

A tree is a table of the schema as nested dicts (``schema.Tree``).  The code of this package does not depend
on the names of operators, except ``CUSTOM``; the generated module ``tables`` lists all of them.
"""
