//! The way from a table to the table after a statement, column by column.

use crate::{
    change::ColumnStep,
    mysql::table::{MysqlTable, same_name},
};

/// Which column of the table before a column was; `None`: it is new.
pub(super) type Origin = Option<usize>;

/// The steps when columns of the same name are the same.
pub(crate) fn difference(before: &MysqlTable, after: &MysqlTable) -> Vec<ColumnStep> {
    let find = |name: &str| {
        let mut columns = before.columns.iter();
        columns.position(|own| same_name(&own.name, name))
    };
    let origins: Vec<Origin> = after.columns.iter().map(|own| find(&own.name)).collect();
    steps(before, after, &origins)
}

/// The steps; `origins` has one for each column of `after`. Drops come first, then names, then
/// types, then new columns and places.
pub(super) fn steps(
    before: &MysqlTable,
    after: &MysqlTable,
    origins: &[Origin],
) -> Vec<ColumnStep> {
    let mut steps = Vec::new();
    for (at, column) in before.columns.iter().enumerate() {
        if !origins.contains(&Some(at)) {
            steps.push(ColumnStep::Drop(column.name.clone()));
        }
    }
    let pairs = || {
        let columns = after.columns.iter().zip(origins);
        columns.filter_map(|(column, origin)| Some((before.columns.get((*origin)?)?, column)))
    };
    let names: Vec<(&str, &str)> = pairs()
        .map(|(old, new)| (old.name.as_str(), new.name.as_str()))
        .collect();
    rename(&names, &mut steps);
    for (old, new) in pairs() {
        let mut renamed = old.to_column();
        let column = new.to_column();
        renamed.name.clone_from(&column.name);
        if renamed != column {
            steps.push(ColumnStep::Alter(column));
        }
    }
    place(after, origins, &mut steps);
    if before.comment != after.comment {
        steps.push(ColumnStep::Comment(after.comment.clone()));
    }
    steps
}

/// Renames so that no name is taken twice on the way; cycles go over a name of their own.
fn rename(names: &[(&str, &str)], steps: &mut Vec<ColumnStep>) {
    // Present name and name to be, of all columns that stay.
    let mut names: Vec<(String, &str)> = names
        .iter()
        .map(|(from, to)| ((*from).to_owned(), *to))
        .collect();
    loop {
        let waiting = || (0..names.len()).filter(|at| names.get(*at).is_some_and(|(a, b)| a != b));
        let is_free = |at: &usize| {
            let wanted = names.get(*at).map(|(_, to)| *to).unwrap_or_default();
            let mut others = names.iter().enumerate();
            !others.any(|(other, (name, _))| other != *at && same_name(name, wanted))
        };
        let free = waiting().find(is_free);
        let Some(at) = free.or_else(|| waiting().next()) else {
            return;
        };
        let to = match (free, names.get(at)) {
            (Some(_), Some((_, to))) => (*to).to_owned(),
            _ => {
                let numbers = 0_usize..;
                let mut aside = numbers.map(|number| format!("_headwater_aside_{number}"));
                let taken = |name: &String| {
                    names
                        .iter()
                        .any(|(now, to)| same_name(now, name) || same_name(to, name))
                };
                aside.find(|name| !taken(name)).unwrap_or_default()
            }
        };
        if let Some((name, _)) = names.get_mut(at) {
            let from = std::mem::replace(name, to.clone());
            steps.push(ColumnStep::Rename { from, to });
        }
    }
}

/// Adds what is new and moves what stands elsewhere. As many columns as can be stay in place.
fn place(after: &MysqlTable, origins: &[Origin], steps: &mut Vec<ColumnStep>) {
    let stays = in_order(origins);
    let mut before: Option<String> = None;
    for (at, (column, origin)) in after.columns.iter().zip(origins).enumerate() {
        if origin.is_none() {
            steps.push(ColumnStep::Add(column.to_column(), before));
        } else if !stays.contains(&at) {
            steps.push(ColumnStep::Move(column.name.clone(), before));
        }
        before = Some(column.name.clone());
    }
}

/// Places of a longest run of origins that ascend.
fn in_order(origins: &[Origin]) -> std::collections::HashSet<usize> {
    // For each place: the length of the longest run that ends there, and the place before it.
    let mut runs: Vec<(usize, Option<usize>)> = Vec::with_capacity(origins.len());
    for (at, origin) in origins.iter().enumerate() {
        let mut best = (0, None);
        if origin.is_some() {
            best = (1, None);
            for (earlier, run) in runs.iter().enumerate().take(at) {
                let ascends = matches!(
                    (origins.get(earlier), origin),
                    (Some(Some(one)), Some(other)) if one < other
                );
                if ascends && run.0 + 1 > best.0 {
                    best = (run.0 + 1, Some(earlier));
                }
            }
        }
        runs.push(best);
    }
    let longest = runs.iter().enumerate().max_by_key(|(_, run)| run.0);
    let mut at = longest.filter(|(_, run)| run.0 > 0).map(|(at, _)| at);
    let mut stays = std::collections::HashSet::new();
    while let Some(place) = at {
        stays.insert(place);
        at = runs.get(place).and_then(|run| run.1);
    }
    stays
}
