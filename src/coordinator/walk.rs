//! How far a walk over many things of a coordinator has come, so that it can be made in short steps.

/// A walk over everything in the order of its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Walk<K> {
    Over,
    /// It goes on behind this key, or begins.
    Behind(Option<K>),
}

impl<K> Walk<K> {
    /// One that begins.
    pub const BEGIN: Walk<K> = Walk::Behind(None);

    pub fn is_over(&self) -> bool {
        matches!(self, Walk::Over)
    }

    /// Ends it; where it was. [`Walk::goes_on`] takes the end back.
    pub fn step(&mut self) -> Option<Option<K>> {
        match std::mem::replace(self, Walk::Over) {
            Walk::Over => None,
            Walk::Behind(last) => Some(last),
        }
    }

    pub fn goes_on(&mut self, behind: K) {
        *self = Walk::Behind(Some(behind));
    }
}
