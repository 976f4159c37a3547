//! Dates and times: the calendar, and the text that the server prints.

use std::io::Write;

/// Microseconds of a day.
pub(crate) const DAY_MICROS: i64 = 86_400_000_000;

/// Days since 1970-01-01, or `None` when it is not a date of the calendar (years 0 to 9999; the
/// server counts year 0 as a leap year, as the proleptic Gregorian calendar does).
pub(crate) fn days(year: u32, month: u32, day: u32) -> Option<i32> {
    let near = year
        .checked_sub(NEAR_FIRST)
        .and_then(|at| NEAR.get(at as usize));
    let (first, leap) = near.copied().unwrap_or_else(|| year_of(year));
    let month_at = (month as usize).wrapping_sub(1);
    let last = LAST_DAYS.get(month_at)? + u32::from(leap && month == 2);
    if day == 0 || day > last || year > 9999 {
        return None;
    }
    let before = DAYS_BEFORE.get(month_at)? + u32::from(leap && month > 2) + day - 1;
    Some(first + before as i32)
}

/// Days from 1970-01-01 to the first day of a year, and whether it is a leap year.
const fn year_of(year: u32) -> (i32, bool) {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    // Leap years before this one: of each four, but of a hundred only one in four.
    let leaps = year.div_ceil(4) - year.div_ceil(100) + year.div_ceil(400);
    (
        year.wrapping_mul(365).wrapping_add(leaps) as i32 - DAYS_TO_1970,
        leap,
    )
}

/// The years that nearly all dates are of, so that nothing is divided for them.
const NEAR_FIRST: u32 = 1900;
static NEAR: [(i32, bool); 256] = {
    let mut years = [(0, false); 256];
    let mut at = 0;
    while at < years.len() {
        #[expect(clippy::indexing_slicing, reason = "at is below the length")]
        {
            years[at] = year_of(NEAR_FIRST + at as u32);
        }
        at += 1;
    }
    years
};

/// Days of each month of a year that is no leap year.
const LAST_DAYS: [u32; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
/// Days of such a year before each month.
const DAYS_BEFORE: [u32; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
/// Days from 0000-01-01 to 1970-01-01.
const DAYS_TO_1970: i32 = 719_528;

/// A date and a time of day; any part may be out of range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) year: u32,
    pub(crate) month: u32,
    pub(crate) day: u32,
    pub(crate) hour: u32,
    pub(crate) minute: u32,
    pub(crate) second: u32,
    pub(crate) micros: u32,
}

impl Moment {
    /// Microseconds since 1970-01-01 00:00, or `None` when there is no such moment.
    pub(crate) fn micros(&self) -> Option<i64> {
        let days = days(self.year, self.month, self.day)?;
        if self.hour > 23 || self.minute > 59 || self.second > 59 || self.micros > 999_999 {
            return None;
        }
        let seconds =
            (i64::from(self.hour) * 60 + i64::from(self.minute)) * 60 + i64::from(self.second);
        Some(i64::from(days) * DAY_MICROS + seconds * 1_000_000 + i64::from(self.micros))
    }
}

/// A value of TIME: a signed span of up to 838:59:59.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) negative: bool,
    pub(crate) hours: u32,
    pub(crate) minutes: u32,
    pub(crate) seconds: u32,
    pub(crate) micros: u32,
}

impl Span {
    /// Milliseconds of the day, when the span is a time of day.
    pub(crate) fn day_millis(&self) -> Option<i32> {
        let minutes = u64::from(self.hours) * 60 + u64::from(self.minutes);
        let millis =
            (minutes * 60 + u64::from(self.seconds)) * 1000 + u64::from(self.micros / 1000);
        match self.negative && (millis > 0 || self.micros > 0) {
            false if millis < 86_400_000 => i32::try_from(millis).ok(),
            _ => None,
        }
    }

    /// Appends the text as the server prints it, with `digits` fractional digits.
    pub(crate) fn write(&self, digits: u8, out: &mut Vec<u8>) {
        if self.negative {
            out.push(b'-');
        }
        // Writing to a vector cannot fail.
        let _ = write!(
            out,
            "{:02}:{:02}:{:02}",
            self.hours, self.minutes, self.seconds
        );
        write_fraction(self.micros, digits, out);
    }
}

/// Appends `.` and the first `digits` digits of a fraction; nothing for 0 digits.
pub(crate) fn write_fraction(micros: u32, digits: u8, out: &mut Vec<u8>) {
    if digits > 0 {
        let digits = u32::from(digits.min(6));
        let value = micros / 10_u32.pow(6 - digits);
        let _ = write!(out, ".{value:0width$}", width = digits as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_follow_the_calendar() {
        assert_eq!(days(1970, 1, 1), Some(0));
        assert_eq!(days(1969, 12, 31), Some(-1));
        assert_eq!(days(2000, 2, 29), Some(11_016));
        assert_eq!(days(1900, 2, 29), None);
        assert_eq!(days(0, 1, 1), Some(-719_528));
        assert_eq!(days(9999, 12, 31), Some(2_932_896));
        // Every day is the next.
        let mut next = -719_528;
        for year in 0..=9999 {
            for month in 1..=12 {
                for day in 1..=31 {
                    if let Some(days) = days(year, month, day) {
                        assert_eq!(days, next, "{year}-{month}-{day}");
                        next += 1;
                    }
                }
            }
        }
        assert_eq!(next, 2_932_897);
        for (month, day) in [(0, 1), (1, 0), (13, 1), (2, 30)] {
            assert_eq!(days(2024, month, day), None);
        }
    }

    #[test]
    fn spans_print_like_the_server() {
        let span = Span {
            negative: true,
            hours: 838,
            minutes: 5,
            seconds: 9,
            micros: 120_000,
        };
        let mut text = Vec::new();
        span.write(3, &mut text);
        assert_eq!(text, b"-838:05:09.120");
        assert_eq!(span.day_millis(), None);
    }
}
