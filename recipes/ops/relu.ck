# SPDX-License-Identifier: Apache-2.0
# max(x, 0).

graph main(%x: f32[2,3]) -> %y {
  %y = Relu(%x)
}
