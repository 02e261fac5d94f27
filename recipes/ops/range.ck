# SPDX-License-Identifier: Apache-2.0
# Numbers from start to limit, exclusive.

graph main(%x: f32[2,3]) -> %y {
  %limit = Rank(%x)
  %y = Range(-3, %limit, 2)
}
