# SPDX-License-Identifier: Apache-2.0
# Rounded to minus infinity.

graph main(%x: i32[6]) -> %y {
  %y = FloorDiv(%x, [3])
}
