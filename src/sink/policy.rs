//! Which schema changes a job follows, and how.

use std::collections::BTreeSet;

use crate::config::{SchemaBehavior, SchemaChangeKind};

/// What the job file says about schema changes.
#[derive(Debug, Clone)]
pub struct SchemaPolicy {
    /// `schema.change.behavior`
    pub behavior: SchemaBehavior,
    /// Kinds that are applied.
    pub kinds: BTreeSet<SchemaChangeKind>,
}

impl Default for SchemaPolicy {
    fn default() -> Self {
        Self {
            behavior: SchemaBehavior::Lenient,
            kinds: SchemaChangeKind::all(),
        }
    }
}

impl SchemaPolicy {
    /// Whether changes of columns are applied as they are.
    pub(super) fn is_evolving(&self) -> bool {
        matches!(
            self.behavior,
            SchemaBehavior::Evolve | SchemaBehavior::TryEvolve
        )
    }

    /// Whether changes of a kind are applied as they are.
    pub(super) fn evolves(&self, kind: SchemaChangeKind) -> bool {
        self.is_evolving() && self.kinds.contains(&kind)
    }

    /// Whether what a change adds is taken over: all but `ignore` do.
    pub(super) fn widens(&self, kind: SchemaChangeKind) -> bool {
        self.behavior != SchemaBehavior::Ignore && self.kinds.contains(&kind)
    }

    /// Whether TRUNCATE empties the sink table.
    pub fn truncates(&self) -> bool {
        self.evolves(SchemaChangeKind::TruncateTable)
    }

    /// Whether the rows of a dropped table go when one of its name comes again.
    pub fn drops(&self) -> bool {
        self.evolves(SchemaChangeKind::DropTable)
    }

    /// Whether the sink may lack columns of its source, or have others of their name.
    pub fn may_differ(&self) -> bool {
        matches!(
            self.behavior,
            SchemaBehavior::Ignore | SchemaBehavior::TryEvolve
        ) || !self.kinds.contains(&SchemaChangeKind::AddColumn)
            || !self.kinds.contains(&SchemaChangeKind::AlterColumnType)
    }
}
