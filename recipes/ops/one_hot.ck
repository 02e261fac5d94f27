# SPDX-License-Identifier: Apache-2.0
# One-hot rows from indices.

graph main(%x: i32[3]) -> %y {
  %y = OneHot(%x, 4, 1.0, 0.0) {axis: -1}
}
