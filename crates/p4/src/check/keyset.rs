//! Sets of values that a key is held against: in `select` and in entries.

use crate::ast::{Expr, ExprKind};
use crate::diagnostic::Checked;
use crate::ir::{Constant, KeySet, MatchKind, ones};

use super::Checker;
use super::types::Ty;

impl Checker<'_> {
    /// The set; `None` for anything.
    pub(super) fn keyset(&mut self, expr: &Expr, ty: &Ty) -> Checked<Option<KeySet>> {
        let width = match (ty, ty.width()) {
            (Ty::Unknown(reported), _) => return Err(*reported),
            (_, Some(width)) => width,
            (_, None) => return Err(self.sink.internal(expr.span, &format!("a key of type {ty}"))),
        };
        let mut known = |expr: &Expr| self.known(expr, ty);
        match &expr.kind {
            ExprKind::Any => Ok(None),
            ExprKind::Mask(value, mask) => {
                let (value, mask) = (known(value)?, known(mask)?);
                // Bits outside of the mask do not matter, and are 0 so that equal sets are equal.
                let value = Constant::new(value.value & mask.value, width);
                Ok(Some(KeySet::Masked { value, mask }))
            }
            ExprKind::Range(low, high) => {
                let (low, high) = (known(low)?, known(high)?);
                if ty.is_signed() {
                    return self.sink.refuse(expr.span, "a range of numbers with a sign is").refused();
                }
                if low.value > high.value {
                    self.sink.warn(expr.span, "this range is empty", "nothing is in it");
                }
                Ok(Some(KeySet::Range { low, high }))
            }
            _ => {
                let value = known(expr)?;
                Ok(Some(KeySet::Masked { value, mask: Constant::new(ones(width), width) }))
            }
        }
    }

    /// The set for a key of a table that is matched so.
    pub(super) fn entry_key(&mut self, expr: &Expr, ty: &Ty, kind: MatchKind) -> Checked<KeySet> {
        let set = self.keyset(expr, ty)?;
        let width = ty.width().unwrap_or(1);
        let anything = KeySet::Masked { value: Constant::new(0, width), mask: Constant::new(0, width) };
        let set = set.unwrap_or(anything);
        let is_allowed = match (kind, set) {
            (MatchKind::Ternary, KeySet::Masked { .. }) | (MatchKind::Range, KeySet::Range { .. }) => true,
            (MatchKind::Range, KeySet::Masked { mask, .. }) => mask.value == 0 || mask.value == ones(width),
            (MatchKind::Optional, KeySet::Masked { mask, .. }) => {
                mask.value == 0 || mask.value == ones(width)
            }
            (MatchKind::Exact, KeySet::Masked { mask, .. }) => mask.value == ones(width),
            (MatchKind::Lpm, KeySet::Masked { mask, .. }) => is_prefix(mask),
            (_, KeySet::Range { .. }) => false,
        };
        if !is_allowed {
            let (kind, takes) = match kind {
                MatchKind::Exact => ("exact", "a value"),
                MatchKind::Lpm => ("lpm", "a value, or a value &&& a prefix of ones"),
                MatchKind::Ternary => ("ternary", "a value, or a value &&& a mask"),
                MatchKind::Range => ("range", "a value, or low .. high"),
                MatchKind::Optional => ("optional", "a value or `_`"),
            };
            return self
                .sink
                .error(expr.span, format!("a key that is matched {kind} takes {takes}"))
                .label("not this")
                .refused();
        }
        Ok(set)
    }
}

/// Whether all ones are at the top.
pub(super) fn is_prefix(mask: Constant) -> bool {
    let zeros = !mask.value & ones(mask.width);
    zeros & zeros.wrapping_add(1) == 0
}
