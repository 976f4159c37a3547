//! What a schema change of a source table makes of its sink table.
//!
//! The behaviours are those of Flink CDC (`schema.change.behavior`, `include.schema.changes`,
//! `exclude.schema.changes`); what they do here is in docs/schema-changes.md. A change of the sink's
//! schema is made at once, before the checkpoint that holds the rows behind it, and has a mark in it
//! that names the statement: when the log is read again after a restart, what was done is found by
//! its mark and never done twice.

use headwater_connectors::{
    Column, TableSchema,
    change::{ColumnStep, SchemaChange},
};
use headwater_paimon::{
    ColumnPlace, DataField, DataType, Schema, SchemaChange as LakeChange, Table,
};

use super::{
    policy::SchemaPolicy,
    shape::{common, holds, named, position},
    types::{lake_field, lake_type},
};
use crate::{
    config::{SchemaBehavior, SchemaChangeKind},
    error::{JobError, Result},
};

/// Table option that names the statement a schema was made for.
const MARK: &str = "headwater.statement";

/// One change of the sink's schema.
#[derive(Debug, Clone, PartialEq)]
enum Step {
    Add(DataField, Option<String>),
    Drop(String),
    Rename(String, String),
    Type(String, DataType),
    Nullable(String),
    Remark(String, Option<String>),
    Move(String, Option<String>),
    Comment(Option<String>),
}

/// What is to be done for a change.
#[derive(Debug, Default, PartialEq)]
struct Plan {
    steps: Vec<Step>,
    /// Rows that are there lack values that the source has, though the source says that its rows are
    /// kept.
    reread: Option<String>,
}

/// The sink table behind a change.
#[derive(Debug)]
pub struct Evolved {
    /// The table at its schema from here on.
    pub table: Table,
    /// Why the rows that are there have to be read anew, if they have to for the sink's sake.
    pub reread: Option<String>,
}

/// Follows a change: `table` is the sink table as of the rows before it. `is_another`: the source's
/// table was dropped and another has its name now, so that columns of a type that nothing holds together
/// with the old one are replaced.
///
/// # Errors
/// [`JobError::Definite`] for what cannot be followed, by table, column, types, statement, position.
pub async fn evolve(
    table: &Table,
    change: &SchemaChange,
    policy: &SchemaPolicy,
    is_another: bool,
) -> Result<Evolved> {
    if policy.behavior == SchemaBehavior::Exception {
        return Err(refused(
            change,
            "its schema changed, and schema.change.behavior is exception",
        ));
    }
    let planned = |sink: &Schema| plan(change, sink, policy, is_another);
    let plan = planned(table.schema())?;
    if plan.steps.is_empty() {
        return Ok(Evolved {
            table: table.clone(),
            reread: plan.reread,
        });
    }
    let later = later_schemas(table).await?;
    let newest = later.last().unwrap_or(table).clone();
    let is_ahead = mark(newest.schema()) != mark(table.schema());
    if !is_ahead {
        // Others may have changed the table meanwhile.
        let Plan { steps, reread } = match later.is_empty() {
            true => plan,
            false => planned(newest.schema())?,
        };
        let table = make(newest, &steps, change).await?;
        return Ok(Evolved { table, reread });
    }
    if let Some(made) = made_for(&change.id, &later)
        && lacking(change, made.schema(), policy, is_another)?
            .steps
            .is_empty()
    {
        return Ok(Evolved {
            table: made.clone(),
            reread: plan.reread,
        });
    }
    // Where the server was asked what a table is now, it may have told of later statements too, and
    // another time of more of them: what is there is taken, and what it lacks comes on top.
    let rest = lacking(change, newest.schema(), policy, is_another)?;
    Ok(Evolved {
        table: make(newest, &rest.steps, change).await?,
        reread: Some("was followed as another change before the restart".to_owned()),
    })
}

fn mark(schema: &Schema) -> Option<&String> {
    schema.options.get(MARK)
}

/// The schemas of a table after its own, oldest first.
async fn later_schemas(table: &Table) -> Result<Vec<Table>> {
    let newest = table.reload().await?;
    let mut later = Vec::new();
    for id in table.schema().id + 1..newest.schema().id {
        later.push(table.at_schema(id).await?);
    }
    if newest.schema().id > table.schema().id {
        later.push(newest);
    }
    Ok(later)
}

/// The table at its newest schema that no statement after `table`'s own schema made: what others
/// changed is taken over, what this job did ahead of its record is not.
pub async fn without_later_statements(table: &Table) -> Result<Table> {
    let mut found = table.clone();
    for later in later_schemas(table).await? {
        if mark(later.schema()) != mark(table.schema()) {
            break;
        }
        found = later;
    }
    Ok(found)
}

/// Of the schemas behind a table's own the one that was made for a statement, with what others changed
/// behind it.
fn made_for<'a>(id: &str, later: &'a [Table]) -> Option<&'a Table> {
    let is_this = |made: &&Table| mark(made.schema()).is_some_and(|mark| mark == id);
    let behind = later.iter().skip_while(|made| !is_this(made));
    behind.take_while(is_this).last()
}

async fn make(table: Table, steps: &[Step], change: &SchemaChange) -> Result<Table> {
    if steps.is_empty() {
        return Ok(table);
    }
    let paths: Vec<[&str; 1]> = steps.iter().map(|step| [step.column()]).collect();
    let mut changes: Vec<LakeChange<'_>> = steps
        .iter()
        .zip(&paths)
        .map(|(step, path)| step.of(path))
        .collect();
    changes.push(LakeChange::SetOption {
        name: MARK,
        value: &change.id,
    });
    table.alter(&changes).await.map_err(|error| match error {
        headwater_paimon::Error::Table { message, .. } => refused(change, &message),
        error => error.into(),
    })
}

fn refused(change: &SchemaChange, why: &str) -> JobError {
    JobError::Definite(format!(
        "table {}: a schema change cannot be followed: {why}. The statement: {}; its position: {}. \
         Nothing past it was committed. Leave the table out (tables.exclude), set \
         schema.change.behavior, or remove the job's state and its sink tables to start again",
        change.table.name, change.statement, change.position
    ))
}

impl Step {
    fn column(&self) -> &str {
        match self {
            Self::Add(field, _) => &field.name,
            Self::Drop(name)
            | Self::Rename(name, _)
            | Self::Type(name, _)
            | Self::Nullable(name)
            | Self::Remark(name, _)
            | Self::Move(name, _) => name,
            Self::Comment(_) => "",
        }
    }

    fn of<'a>(&'a self, path: &'a [&'a str]) -> LakeChange<'a> {
        match self {
            Self::Add(field, after) => LakeChange::AddColumn {
                path,
                data_type: field.data_type.clone(),
                description: field.description.as_deref(),
                place: Some(place(after)),
            },
            Self::Drop(_) => LakeChange::DropColumn { path },
            Self::Rename(_, name) => LakeChange::RenameColumn { path, name },
            Self::Type(_, data_type) => LakeChange::UpdateColumnType {
                path,
                data_type: data_type.clone(),
            },
            Self::Nullable(_) => LakeChange::UpdateColumnNullability {
                path,
                nullable: true,
            },
            Self::Remark(_, comment) => LakeChange::UpdateColumnComment {
                path,
                description: comment.as_deref(),
            },
            Self::Move(name, after) => LakeChange::UpdateColumnPosition {
                name,
                place: place(after),
            },
            Self::Comment(comment) => LakeChange::UpdateComment {
                comment: comment.as_deref(),
            },
        }
    }
}

/// The place behind a column; first when there is none.
pub(super) fn place(after: &Option<String>) -> ColumnPlace<'_> {
    after
        .as_deref()
        .map_or(ColumnPlace::First, ColumnPlace::After)
}

/// Plans a change on a copy of the sink's columns, step by step.
struct Planner<'a> {
    change: &'a SchemaChange,
    policy: &'a SchemaPolicy,
    fields: Vec<DataField>,
    keys: Vec<String>,
    plan: Plan,
    /// The source's table is another one of the same name.
    is_another: bool,
}

fn plan(
    change: &SchemaChange,
    sink: &Schema,
    policy: &SchemaPolicy,
    is_another: bool,
) -> Result<Plan> {
    let mut planner = Planner {
        change,
        policy,
        fields: sink.fields.clone(),
        keys: sink.primary_keys.clone(),
        plan: Plan::default(),
        is_another,
    };
    for step in &change.steps {
        let (fields, done) = (planner.fields.clone(), planner.plan.steps.len());
        match planner.step(step) {
            Err(error) if policy.behavior == SchemaBehavior::TryEvolve => {
                tracing::warn!(%error, "schema.change.behavior is try_evolve: going on without");
                planner.fields = fields;
                planner.plan.steps.truncate(done);
            }
            result => result?,
        }
    }
    if policy.behavior != SchemaBehavior::Ignore || !change.steps.is_empty() {
        planner.allow_nulls();
    }
    Ok(planner.plan)
}

/// What a sink table lacks of a change's columns.
fn lacking(
    change: &SchemaChange,
    sink: &Schema,
    policy: &SchemaPolicy,
    is_another: bool,
) -> Result<Plan> {
    let mut behind = None;
    let mut steps = Vec::new();
    for column in &change.table.columns {
        steps.push(match named(&sink.fields, &column.name) {
            Some(_) => ColumnStep::Alter(column.clone()),
            None => ColumnStep::Add(column.clone(), behind),
        });
        behind = Some(column.name.clone());
    }
    let change = SchemaChange {
        steps,
        ..change.clone()
    };
    plan(&change, sink, policy, is_another)
}

impl Planner<'_> {
    fn step(&mut self, step: &ColumnStep) -> Result<()> {
        match step {
            ColumnStep::Add(column, after) => self.add(column, after.as_deref()),
            ColumnStep::Drop(name) => self.drop(name),
            ColumnStep::Rename { from, to } => self.rename(from, to),
            ColumnStep::Alter(column) => self.alter(column),
            ColumnStep::Move(name, after) => {
                self.move_to(name, after.as_deref());
                Ok(())
            }
            ColumnStep::Comment(comment) => {
                if self.policy.widens(SchemaChangeKind::AlterTableComment) {
                    self.plan.steps.push(Step::Comment(comment.clone()));
                }
                Ok(())
            }
        }
    }

    fn wrong(&self, why: String) -> JobError {
        refused(self.change, &why)
    }

    fn find(&self, name: &str) -> Option<&DataField> {
        named(&self.fields, name)
    }

    fn is_key(&self, name: &str) -> bool {
        self.keys.iter().any(|key| key == name)
    }

    fn add(&mut self, column: &Column, after: Option<&str>) -> Result<()> {
        if !self.policy.widens(SchemaChangeKind::AddColumn) {
            return Ok(());
        }
        if self.find(&column.name).is_some() {
            // It was kept when the source dropped it, or someone added it: rows have values there that
            // the source's have not.
            self.plan.reread = Some(format!(
                "adds column {}, which the sink table has already",
                column.name
            ));
            return self.widen(column);
        }
        let after = after.map(|name| match self.find(name) {
            Some(field) => Some(field.name.clone()),
            None => self.fields.last().map(|field| field.name.clone()),
        });
        let field = DataField {
            nullable: true,
            ..lake_field(column)
        };
        self.push_field(field, after.flatten());
        Ok(())
    }

    fn push_field(&mut self, field: DataField, after: Option<String>) {
        self.insert(field.clone(), after.as_deref());
        self.plan.steps.push(Step::Add(field, after));
    }

    fn insert(&mut self, field: DataField, after: Option<&str>) {
        let at = after.and_then(|name| {
            let mut fields = self.fields.iter();
            fields.position(|field| field.name == name)
        });
        self.fields.insert(at.map_or(0, |at| at + 1), field);
    }

    fn drop(&mut self, name: &str) -> Result<()> {
        let Some(field) = self.find(name).cloned() else {
            return Ok(());
        };
        if self.is_key(&field.name) {
            return Err(self.wrong(format!(
                "column {name} is part of the primary key, which the lake cannot change"
            )));
        }
        if self.policy.evolves(SchemaChangeKind::DropColumn) {
            self.fields.retain(|other| other.name != field.name);
            self.plan.steps.push(Step::Drop(field.name));
        }
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<()> {
        let Some(field) = self.find(from).cloned() else {
            return Ok(());
        };
        let is_key = self.is_key(&field.name);
        if self.policy.evolves(SchemaChangeKind::RenameColumn) || is_key {
            // Where only the case changes it is the same column.
            if self.find(to).is_some_and(|other| other.name != field.name) {
                return Err(self.wrong(format!(
                    "column {from} is {to} now, and the sink table has a column {to} already"
                )));
            }
            for other in self
                .fields
                .iter_mut()
                .filter(|other| other.name == field.name)
            {
                to.clone_into(&mut other.name);
            }
            for key in self.keys.iter_mut().filter(|key| **key == field.name) {
                to.clone_into(key);
            }
            self.plan
                .steps
                .push(Step::Rename(field.name, to.to_owned()));
            return Ok(());
        }
        if !self.policy.widens(SchemaChangeKind::RenameColumn) || self.find(to).is_some() {
            return Ok(());
        }
        self.plan.reread = Some(format!(
            "renames column {from}, which stays, and the rows have no {to} yet"
        ));
        let added = DataField {
            name: to.to_owned(),
            nullable: true,
            ..field.clone()
        };
        self.push_field(added, Some(field.name));
        Ok(())
    }

    fn alter(&mut self, column: &Column) -> Result<()> {
        self.widen(column)?;
        let Some(field) = self.find(&column.name).cloned() else {
            return Ok(());
        };
        let takes = self.policy.behavior != SchemaBehavior::Ignore;
        if takes && column.comment.is_some() && field.description != column.comment {
            let comment = column.comment.clone();
            self.plan.steps.push(Step::Remark(field.name, comment));
        }
        Ok(())
    }

    /// Makes the sink's column hold what the source's holds.
    fn widen(&mut self, column: &Column) -> Result<()> {
        let Some(field) = self.find(&column.name).cloned() else {
            return Ok(());
        };
        let wanted = lake_type(&column.data_type);
        if holds(&field.data_type, &wanted)
            || !self.policy.widens(SchemaChangeKind::AlterColumnType)
        {
            return Ok(());
        }
        let becomes = match self.policy.behavior {
            SchemaBehavior::Lenient => common(&field.data_type, &wanted),
            _ => holds(&wanted, &field.data_type)
                .then(|| wanted.clone())
                .or_else(|| common(&field.data_type, &wanted)),
        };
        let what = format!(
            "column {} is {} at the source now ({wanted}), and {} in the lake",
            column.name, column.source_type, field.data_type
        );
        if self.is_key(&field.name) {
            return Err(self.wrong(format!(
                "{what}; the lake cannot change the type of a key column"
            )));
        }
        let Some(becomes) = becomes else {
            if self.policy.behavior == SchemaBehavior::Lenient || self.is_another {
                self.replace(field, column);
                return Ok(());
            }
            return Err(self.wrong(format!(
                "{what}, which cannot become a type that holds both"
            )));
        };
        for other in self
            .fields
            .iter_mut()
            .filter(|other| other.name == field.name)
        {
            other.data_type = becomes.clone();
        }
        self.plan.steps.push(Step::Type(field.name, becomes));
        Ok(())
    }

    /// Puts a new column in the place of one whose values no type holds together with the new ones.
    fn replace(&mut self, field: DataField, column: &Column) {
        let at = self
            .fields
            .iter()
            .position(|other| other.name == field.name);
        let before = at.and_then(|at| self.fields.get(at.checked_sub(1)?));
        let after = before.map(|before| before.name.clone());
        self.fields.retain(|other| other.name != field.name);
        self.plan.steps.push(Step::Drop(field.name));
        let added = DataField {
            nullable: true,
            ..lake_field(column)
        };
        self.push_field(added, after);
        self.plan.reread = Some(format!(
            "gives column {} another type, which no values so far have",
            column.name
        ));
    }

    fn move_to(&mut self, name: &str, after: Option<&str>) {
        let evolves = self.policy.is_evolving();
        let Some(field) = self.find(name).cloned().filter(|_| evolves) else {
            return;
        };
        let after = match after {
            None => None,
            Some(after) => match self.find(after) {
                Some(other) if other.name != field.name => Some(other.name.clone()),
                _ => return,
            },
        };
        self.fields.retain(|other| other.name != field.name);
        let name = field.name.clone();
        self.insert(field, after.as_deref());
        self.plan.steps.push(Step::Move(name, after));
    }

    /// Columns of the sink that get NULLs from now on: the source has none of their name, or one that
    /// may be NULL.
    fn allow_nulls(&mut self) {
        let source: &TableSchema = &self.change.table;
        let missing = |field: &&mut DataField| {
            let names = source.columns.iter().map(|column| column.name.as_str());
            let column = position(names, &field.name).and_then(|at| source.columns.get(at));
            !field.nullable && column.is_none_or(|column| column.nullable)
        };
        let keys = &self.keys;
        let fields = self.fields.iter_mut().filter(missing);
        for field in fields.filter(|field| !keys.contains(&field.name)) {
            field.nullable = true;
            self.plan.steps.push(Step::Nullable(field.name.clone()));
        }
    }
}

#[cfg(test)]
#[path = "evolve/tests.rs"]
mod tests;
