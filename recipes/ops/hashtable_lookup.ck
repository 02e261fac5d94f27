# SPDX-License-Identifier: Apache-2.0
# Rows of a table by keys, and which keys were found.

graph main(%keys: i32[3]) -> %y, %hits {
  %known = const i32[4] [2, 3, 5, 7]
  %table = const f32[4,2] gaussian(0, 1)
  %y, %hits = HashtableLookup(%keys, %known, %table)
}
