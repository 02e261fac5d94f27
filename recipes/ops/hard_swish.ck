# SPDX-License-Identifier: Apache-2.0
# x * relu6(x + 3) / 6.

graph main(%x: f32[2,3]) -> %y {
  %y = HardSwish(%x)
}
