# SPDX-License-Identifier: Apache-2.0
# Whether any element of a row is true.

graph main(%x: bool[2,3]) -> %y {
  %y = ReduceAny(%x, [1])
}
