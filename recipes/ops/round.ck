# SPDX-License-Identifier: Apache-2.0
# To even where two are as near.

graph main(%x: f32[2,3]) -> %y {
  %y = Round(%x)
}
