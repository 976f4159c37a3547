//! How hard zstd looks for matches in a page.
//!
//! Level 1 looks into a table of 16,384 places. In texts of digits, dates and keys that hardly repeat
//! it finds little there and takes up to thrice the time of a table of 128, which stays in the
//! processor's fastest cache and is seldom right. In sentences, JSON and words it finds what the small
//! table does not. Numbers whose upper bytes repeat want matches shorter than the seven bytes that the
//! level asks of large pages. So it is tried, column by column.

use std::{
    mem::swap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

use parquet::errors::Result;
use zstd::{bulk::Compressor, zstd_safe};

/// The level whose pages may be searched otherwise; the default of `file.compression.zstd-level`.
pub(super) const LEVEL: i32 = 1;
/// Bytes of a page below which the level is good enough, and a trial worth nothing.
const TRIED_BYTES: usize = 64 << 10;
/// Bytes of a page beyond which the level looks for matches of seven bytes only.
/// Source: `ZSTD_defaultCParameters`.
const LONG_MATCH_BYTES: usize = 256 << 10;
/// Pages of a column between two trials. The first is of its first page and leaves out what rarely
/// pays, so that small files cost no more; a later one costs up to seven pages' time.
const FIRST_PAGES: u32 = 16;
const NEXT_PAGES: u32 = 128;
/// What is kept of a page's room for the next one, at most.
const KEPT_BYTES: usize = 1 << 20;

/// Where zstd looks for matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Search {
    /// As the level does.
    Level,
    /// In a table that is very small, so among the last few.
    Near,
    /// For matches of six bytes.
    Short,
}

impl Search {
    /// Logarithm of the table's size, and the least bytes of a match; 0 is what the level says.
    fn parameters(self) -> (u32, u32) {
        match self {
            Self::Level => (0, 0),
            Self::Near => (7, 7),
            Self::Short => (14, 6),
        }
    }

    fn of_number(number: u32) -> Self {
        match number {
            1 => Self::Near,
            2 => Self::Short,
            _ => Self::Level,
        }
    }

    /// For a page of so many bytes, by what is left of it. Where matches are few, as what is left
    /// shows, the small table is thrice as fast and may leave more; elsewhere it gains little time.
    /// What takes as long and finds other matches has to find many more.
    fn best(page: usize, level: usize, near: usize, short: Option<usize>) -> Self {
        let most = level as f64 * if near * 3 > page { 1.1 } else { 1.02 };
        let (usual, search) = match near as f64 <= most {
            true => (near, Self::Near),
            false => (level, Self::Level),
        };
        match short {
            Some(short) if (short as f64) < usual as f64 * 0.9 => Self::Short,
            _ => search,
        }
    }
}

/// How the pages of a column are searched, in all files of a table: what was best for one of them.
#[derive(Debug, Default)]
pub(super) struct Habit {
    /// The search's number in the lowest two bits, above them whether one was tried, above that for
    /// how many pages it stays.
    state: AtomicU32,
}

const TRIED: u32 = 4;

impl Habit {
    /// Compresses a page and gives it to `then`.
    pub(super) fn compress<T>(
        &self,
        page: &[u8],
        then: impl FnOnce(&[u8]) -> Result<T>,
    ) -> Result<T> {
        if page.len() < TRIED_BYTES {
            return by_level(page, then);
        }
        // Writers of several files may count a page twice or not at all: it only counts.
        let state = self.state.load(Ordering::Relaxed);
        let (search, pages) = (Search::of_number(state & 3), state >> 3);
        if pages > 0 {
            self.keep(search, pages - 1);
            return Zstd::with(|zstd| then(zstd.compress(page, search)?));
        }
        let is_first = state & TRIED == 0;
        let (search, packed) = Zstd::with(|zstd| zstd.try_all(page, !is_first))?;
        self.keep(search, if is_first { FIRST_PAGES } else { NEXT_PAGES });
        then(&packed)
    }

    fn keep(&self, search: Search, pages: u32) {
        let state = pages << 3 | TRIED | search as u32;
        self.state.store(state, Ordering::Relaxed);
    }
}

/// Compresses a page as the level does and gives it to `then`.
pub(super) fn by_level<T>(page: &[u8], then: impl FnOnce(&[u8]) -> Result<T>) -> Result<T> {
    Zstd::with(|zstd| then(zstd.compress(page, Search::Level)?))
}

/// A compressor with room for a page.
struct Zstd {
    compressor: Compressor<'static>,
    search: Search,
    packed: Vec<u8>,
}

/// Compressors that nobody uses now: about 700 KB each. The process has them together, since files are
/// written on whichever of hundreds of threads is free.
static KEPT: Mutex<Vec<Zstd>> = Mutex::new(Vec::new());
/// As many are kept: more pages are seldom compressed at a time.
const KEPT_MAX: usize = 4;

impl Zstd {
    /// With one of those that are kept, or a new one.
    fn with<T>(run: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let kept = || KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        let free = kept().pop();
        let mut zstd = match free {
            Some(zstd) => zstd,
            None => Self {
                compressor: Compressor::new(LEVEL)?,
                search: Search::Level,
                packed: Vec::new(),
            },
        };
        let done = run(&mut zstd)?;
        if zstd.packed.capacity() > KEPT_BYTES {
            zstd.packed = Vec::new();
        }
        let mut kept = kept();
        if kept.len() < KEPT_MAX {
            kept.push(zstd);
        }
        Ok(done)
    }

    fn compress(&mut self, page: &[u8], search: Search) -> Result<&[u8]> {
        if self.search != search {
            let (table, shortest) = search.parameters();
            let compressor = &mut self.compressor;
            compressor.set_parameter(zstd_safe::CParameter::HashLog(table))?;
            compressor.set_parameter(zstd_safe::CParameter::MinMatch(shortest))?;
            self.search = search;
        }
        self.packed.clear();
        self.packed.reserve(zstd_safe::compress_bound(page.len()));
        let Self {
            compressor, packed, ..
        } = self;
        compressor.compress_to_buffer(page, packed)?;
        Ok(packed)
    }

    /// Gives the best search and what the page is with it.
    fn try_all(&mut self, page: &[u8], short: bool) -> Result<(Search, Vec<u8>)> {
        let mut packed = |search| self.compress(page, search).map(<[u8]>::to_vec);
        let (mut level, mut near) = (packed(Search::Level)?, packed(Search::Near)?);
        let short = match short && page.len() > LONG_MATCH_BYTES {
            true => Some(packed(Search::Short)?),
            false => None,
        };
        let shorter = short.as_ref().map(Vec::len);
        let search = Search::best(page.len(), level.len(), near.len(), shorter);
        match (search, short) {
            (Search::Near, _) => swap(&mut level, &mut near),
            (Search::Short, Some(short)) => level = short,
            _ => {}
        }
        Ok((search, level))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpacked(packed: &[u8]) -> Vec<u8> {
        zstd::bulk::decompress(packed, 1 << 20).unwrap()
    }

    fn random(state: &mut u64) -> u64 {
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        *state >> 33
    }

    fn of_length(length: usize, mut part: impl FnMut() -> Vec<u8>) -> Vec<u8> {
        let mut page = Vec::new();
        while page.len() < length {
            page.extend(part());
        }
        page
    }

    fn digits(length: usize) -> Vec<u8> {
        let mut state = 1;
        of_length(length, || {
            format!("{:09}-", random(&mut state) % 1_000_000_000).into()
        })
    }

    fn words(length: usize) -> Vec<u8> {
        let mut state = 2;
        let words: Vec<String> = (0..300).map(|at| format!("{:x}", at * 7_654_321)).collect();
        of_length(length, || {
            let at = random(&mut state) as usize % words.len();
            format!("{} ", words[at]).into()
        })
    }

    fn doubles(length: usize) -> Vec<u8> {
        let mut state = 3;
        of_length(length, || {
            let cents = (random(&mut state) % 1_000_000) as f64;
            (cents / 100.0).to_le_bytes().into()
        })
    }

    fn chosen(habit: &Habit) -> Search {
        Search::of_number(habit.state.load(Ordering::Relaxed) & 3)
    }

    #[test]
    fn each_column_gets_the_search_that_suits_it() {
        for (page, search) in [
            (digits(264 << 10), Search::Near),
            (words(264 << 10), Search::Level),
            (doubles(264 << 10), Search::Short),
            // Up to there the level looks for six bytes itself.
            (doubles(128 << 10), Search::Level),
        ] {
            let habit = Habit::default();
            for at in 0..FIRST_PAGES + 3 {
                let packed = habit.compress(&page, |packed| Ok(packed.to_vec())).unwrap();
                assert_eq!(unpacked(&packed), page);
                let level = by_level(&page, |packed| Ok(packed.len())).unwrap();
                assert!(packed.len() * 100 <= level * 110, "{search:?}");
                if search != Search::Short || at > FIRST_PAGES {
                    assert_eq!(chosen(&habit), search);
                }
            }
        }
    }

    #[test]
    fn a_column_that_changes_is_tried_again() {
        let (first, then) = (digits(70 << 10), words(70 << 10));
        let habit = Habit::default();
        habit.compress(&first, |_| Ok(())).unwrap();
        assert_eq!(chosen(&habit), Search::Near);
        for _ in 0..FIRST_PAGES {
            habit.compress(&then, |_| Ok(())).unwrap();
            assert_eq!(chosen(&habit), Search::Near);
        }
        habit.compress(&then, |_| Ok(())).unwrap();
        assert_eq!(chosen(&habit), Search::Level);
    }

    #[test]
    fn small_and_empty_pages_are_as_the_level_makes_them() {
        let habit = Habit::default();
        for length in [0, 1, 40, 9_000, TRIED_BYTES - 16] {
            let page = digits(length);
            let packed = habit.compress(&page, |packed| Ok(packed.to_vec())).unwrap();
            assert_eq!(packed, zstd::bulk::compress(&page, LEVEL).unwrap());
            assert_eq!(habit.state.load(Ordering::Relaxed), 0);
        }
    }

    #[test]
    fn a_large_page_leaves_no_memory_behind() {
        let page = digits(3 << 20);
        let habit = Habit::default();
        for _ in 0..2 {
            let packed = habit.compress(&page, |packed| Ok(packed.to_vec())).unwrap();
            assert_eq!(zstd::bulk::decompress(&packed, page.len()).unwrap(), page);
            let kept = KEPT.lock().unwrap();
            assert!(kept.len() <= KEPT_MAX);
            assert!(kept.iter().all(|zstd| zstd.packed.capacity() <= KEPT_BYTES));
        }
    }
}
