# SPDX-License-Identifier: Apache-2.0
# The remainder has the sign of the divisor.

graph main(%x: i32[6]) -> %y {
  %y = FloorMod(%x, [3])
}
