# SPDX-License-Identifier: Apache-2.0
# The indices of true elements; their number is known at run time only.

graph main(%c: bool[2,3]) -> %y {
  %y = Where(%c)  : i64[?,2]
}
