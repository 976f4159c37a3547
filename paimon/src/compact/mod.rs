//! Compaction: fewer and larger files, superseded rows and deletes gone.
//!
//! Deciding is apart from doing: `levels` and `pick` say which sorted runs go to which level, from
//! sizes alone; `rewrite` merges them, in a stream.

mod levels;
mod options;
mod pick;
