# SPDX-License-Identifier: Apache-2.0
# Whether all elements of a row are true.

graph main(%x: bool[2,3]) -> %y {
  %y = ReduceAll(%x, [1])
}
