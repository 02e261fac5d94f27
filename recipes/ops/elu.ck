# SPDX-License-Identifier: Apache-2.0
# x above zero, exp(x) - 1 below.

graph main(%x: f32[2,3]) -> %y {
  %y = Elu(%x)
}
