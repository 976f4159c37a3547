//! The values are those that `UniversalCompactionTest` of Java Paimon expects.

use super::*;

fn universal(amplification: i64, ratio: i32, trigger: usize) -> Universal {
    Universal {
        size_amplification_percent: amplification,
        size_ratio_percent: ratio,
        trigger,
        early: None,
        off_peak: None,
        level0: ForceLevel0::Never,
    }
}

fn early(early: EarlyFull) -> Universal {
    Universal {
        early: Some(early),
        ..universal(100, 1, 3)
    }
}

fn runs(runs: &[(i32, i64)]) -> Vec<RunSize> {
    let size = |(level, bytes): &(i32, i64)| RunSize {
        level: *level,
        bytes: *bytes,
    };
    runs.iter().map(size).collect()
}

fn level0(sizes: &[i64]) -> Vec<RunSize> {
    runs(&sizes.iter().map(|size| (0, *size)).collect::<Vec<_>>())
}

fn at(now_ms: i64) -> Moment {
    Moment { now_ms, hour: 12 }
}

/// Sizes taken and the level they go to.
fn picked(universal: &Universal, levels: i32, of: &[RunSize]) -> Option<(Vec<i64>, i32)> {
    picked_at(universal, levels, of, &mut Memory::default(), at(0))
}

fn picked_at(
    universal: &Universal,
    levels: i32,
    of: &[RunSize],
    memory: &mut Memory,
    moment: Moment,
) -> Option<(Vec<i64>, i32)> {
    let pick = universal.pick(levels - 1, of, memory, moment)?;
    let sizes = of[..pick.runs].iter().map(|run| run.bytes).collect();
    Some((sizes, pick.output_level))
}

#[test]
fn the_output_goes_right_below_the_next_run_and_never_to_level_0() {
    let of = runs(&[(0, 1), (0, 1), (1, 1), (3, 1), (4, 1)]);
    for (taken, level) in [(1, 1), (2, 1), (3, 2), (4, 3), (5, 5)] {
        let unit = unit(5, &of, taken, &mut Memory::default(), at(0));
        assert_eq!(unit.output_level, level, "{taken}");
    }
}

#[test]
fn size_amplification_then_size_ratio_then_number_of_runs_decide() {
    let universal = universal(25, 1, 3);
    let all = picked(&universal, 3, &level0(&[1, 2, 3, 3]));
    assert_eq!(all, Some((vec![1, 2, 3, 3], 2)));
    let ratio = picked(&universal, 4, &runs(&[(0, 1), (1, 1), (2, 1), (3, 50)]));
    assert_eq!(ratio, Some((vec![1, 1, 1], 2)));
    // The run of 3 comes along by size ratio.
    let number = picked(&universal, 4, &runs(&[(0, 1), (1, 2), (2, 3), (3, 50)]));
    assert_eq!(number, Some((vec![1, 2, 3], 2)));
}

#[test]
fn everything_is_taken_when_the_interval_is_over() {
    let universal = early(EarlyFull {
        interval_ms: Some(1000),
        ..EarlyFull::default()
    });
    let of = runs(&[(0, 1), (1, 3), (2, 5)]);
    let mut memory = Memory::default();
    let mut pick = |of: &[RunSize], now| {
        picked_at(&universal, 3, of, &mut memory, at(now)).map(|(sizes, _)| sizes)
    };
    assert_eq!(pick(&of, 0), Some(vec![1, 3, 5]));
    assert_eq!(pick(&of, 1001), Some(vec![1, 3, 5]));
    assert_eq!(pick(&of, 1001), None);
    let amplified = runs(&[(0, 3), (1, 3), (2, 5)]);
    assert_eq!(pick(&amplified, 1500), Some(vec![3, 3, 5]));
    assert_eq!(pick(&of, 2001), None);
}

#[test]
fn everything_is_taken_while_it_is_little_or_when_much_is_new() {
    let small = early(EarlyFull {
        total_bytes: Some(10),
        ..EarlyFull::default()
    });
    let of = runs(&[(0, 1), (1, 3), (2, 5)]);
    assert_eq!(picked(&small, 3, &of), Some((vec![1, 3, 5], 2)));
    let larger = runs(&[(0, 2), (1, 6), (2, 10)]);
    assert_eq!(picked(&small, 3, &larger), None);
    assert_eq!(picked(&small, 3, &runs(&[(3, 5)])), None);
    let grown = early(EarlyFull {
        incremental_bytes: Some(7),
        ..EarlyFull::default()
    });
    assert_eq!(picked(&grown, 3, &larger), Some((vec![2, 6, 10], 2)));
    assert_eq!(picked(&grown, 3, &of), None);
}

#[test]
fn level_0_is_never_an_output() {
    let universal = universal(25, 1, 3);
    let of = runs(&[(0, 1), (0, 1), (1, 1), (2, 50)]);
    assert_eq!(picked(&universal, 3, &of), Some((vec![1, 1, 1], 1)));
    let of = runs(&[(0, 1), (0, 2), (1, 3), (2, 50)]);
    assert_eq!(picked(&universal, 3, &of), Some((vec![1, 2, 3], 1)));
}

#[test]
fn the_number_of_runs_takes_level_2_along() {
    let universal = universal(200, 1, 3);
    let of = runs(&[(0, 10), (0, 20), (1, 97), (2, 100)]);
    assert_eq!(picked(&universal, 3, &of), Some((vec![10, 20, 97, 100], 2)));
}

#[test]
fn much_larger_runs_of_level_0_come_along() {
    let universal = universal(200, 1, 5);
    let of = level0(&[1, 1, 1, 1024, 1024 * 1024]);
    assert_eq!(
        picked(&universal, 6, &of),
        Some((vec![1, 1, 1, 1024, 1024 * 1024], 5))
    );
}

#[test]
fn size_amplification_bounds_the_newer_runs() {
    let universal = universal(25, 0, 1);
    let mut sizes = vec![1];
    for expected in [
        vec![2],
        vec![3],
        vec![4],
        vec![1, 4],
        vec![6],
        vec![1, 6],
        vec![8],
        vec![1, 8],
        vec![1, 1, 8],
        vec![11],
        vec![1, 11],
        vec![1, 1, 11],
        vec![14],
        vec![1, 14],
        vec![1, 1, 14],
        vec![1, 1, 1, 14],
        vec![18],
    ] {
        sizes.insert(0, 1);
        if universal.amplified(&level0(&sizes)) {
            sizes = vec![sizes.iter().sum()];
        }
        assert_eq!(sizes, expected);
    }
}

/// Each size at a level of its own.
fn by_ratio(universal: &Universal, sizes: &[i64]) -> Vec<i64> {
    let levels: Vec<(i32, i64)> = (0..).zip(sizes.iter().copied()).collect();
    let of = runs(&levels);
    if of.len() < universal.trigger {
        return sizes.to_vec();
    }
    let top = sizes.len() as i32;
    match universal.by_size_ratio(top, &of, 1, false, &mut Memory::default(), at(0)) {
        None => sizes.to_vec(),
        Some(pick) => {
            let (taken, rest) = sizes.split_at(pick.runs);
            let mut merged = vec![taken.iter().sum()];
            merged.extend(rest);
            merged
        }
    }
}

#[test]
fn size_ratio_takes_runs_of_similar_size() {
    let universal = universal(25, 1, 5);
    let mut sizes = vec![1, 1, 1, 1];
    for expected in [
        vec![5],
        vec![1, 5],
        vec![1, 1, 5],
        vec![1, 1, 1, 5],
        vec![4, 5],
        vec![1, 4, 5],
        vec![1, 1, 4, 5],
        vec![3, 4, 5],
        vec![1, 3, 4, 5],
        vec![2, 3, 4, 5],
        vec![1, 2, 3, 4, 5],
        vec![16],
        vec![1, 16],
        vec![1, 1, 16],
        vec![1, 1, 1, 16],
        vec![4, 16],
        vec![1, 4, 16],
        vec![1, 1, 4, 16],
        vec![3, 4, 16],
        vec![1, 3, 4, 16],
        vec![2, 3, 4, 16],
        vec![1, 2, 3, 4, 16],
        vec![11, 16],
    ] {
        sizes.insert(0, 1);
        sizes = by_ratio(&universal, &sizes);
        assert_eq!(sizes, expected);
    }
}

#[test]
fn a_wider_ratio_takes_more() {
    assert_eq!(by_ratio(&universal(25, 10, 2), &[8, 9, 10]), [8, 9, 10]);
    assert_eq!(by_ratio(&universal(25, 20, 2), &[8, 9, 10]), [27]);
    let mut night = universal(25, 10, 2);
    night.off_peak = Some(OffPeak {
        start_hour: 22,
        end_hour: 13,
        ratio_percent: 10,
    });
    assert_eq!(by_ratio(&night, &[8, 9, 10]), [27]);
    night.off_peak = Some(OffPeak {
        start_hour: 13,
        end_hour: 22,
        ratio_percent: 10,
    });
    assert_eq!(by_ratio(&night, &[8, 9, 10]), [8, 9, 10]);
}

#[test]
fn level_0_is_emptied_where_readers_wait_for_it() {
    let forced = Universal {
        level0: ForceLevel0::Always,
        ..universal(25, 1, 3)
    };
    assert_eq!(
        picked(&forced, 3, &level0(&[1, 2, 2, 2])),
        Some((vec![1, 2, 2, 2], 2))
    );
    let of = runs(&[(0, 1), (1, 2), (2, 2)]);
    assert_eq!(picked(&forced, 3, &of), Some((vec![1, 2, 2], 2)));
    let of = runs(&[(0, 1), (2, 2)]);
    assert_eq!(picked(&forced, 3, &of), Some((vec![1], 1)));
    assert_eq!(picked(&forced, 3, &runs(&[(2, 2)])), None);
}

#[test]
fn level_0_is_emptied_every_few_decisions() {
    let gentle = Universal {
        level0: ForceLevel0::Every(5),
        ..universal(25, 1, 5)
    };
    let mut memory = Memory::default();
    for (of, expected) in [
        (level0(&[1, 2, 2, 2]), (vec![1, 2, 2, 2], 2)),
        (runs(&[(0, 2), (1, 2), (2, 2)]), (vec![2, 2, 2], 2)),
        (runs(&[(0, 1), (2, 2)]), (vec![1], 1)),
    ] {
        for _ in 0..4 {
            assert_eq!(picked_at(&gentle, 3, &of, &mut memory, at(0)), None);
        }
        assert_eq!(
            picked_at(&gentle, 3, &of, &mut memory, at(0)),
            Some(expected)
        );
    }
}

#[test]
fn nothing_is_picked_of_nothing() {
    let eager = Universal {
        level0: ForceLevel0::Always,
        early: Some(EarlyFull {
            interval_ms: Some(0),
            total_bytes: Some(1 << 40),
            incremental_bytes: Some(0),
        }),
        ..universal(0, 100, 1)
    };
    assert_eq!(picked(&eager, 3, &[]), None);
}
