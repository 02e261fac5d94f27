# SPDX-License-Identifier: Apache-2.0
# Rounding to the nearest integer, ties to even.

graph main(%x: f32[2,3]) -> %y {
  %y = Round(%x)
}
