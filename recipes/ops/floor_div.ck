# SPDX-License-Identifier: Apache-2.0
# Division rounded towards minus infinity.

graph main(%x: i32[6]) -> %y {
  %y = FloorDiv(%x, [3])
}
