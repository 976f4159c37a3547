//! `--where`: SQL comparisons of columns with values, made a predicate of the table's types.

use headwater_paimon::{DataType, Predicate, Schema, binary_row::Value};
use jiff::civil;
use sqlparser::{
    ast::{BinaryOperator, Expr, InTarget, UnaryOperator, Value as SqlValue},
    dialect::GenericDialect,
    parser::Parser,
};

use crate::error::{JobError, Result};

/// Reads a condition such as `status = 'open' and (id > 7 or note is null)`.
pub(super) fn parse(text: &str, schema: &Schema) -> Result<Predicate> {
    let wrong = |message: String| JobError::Definite(format!("--where: {message}"));
    let mut parser = Parser::new(&GenericDialect {})
        .try_with_sql(text)
        .map_err(|error| wrong(error.to_string()))?;
    let expr = parser
        .parse_expr()
        .map_err(|error| wrong(error.to_string()))?;
    let rest = parser.peek_token();
    if rest.token != sqlparser::tokenizer::Token::EOF {
        return Err(wrong(format!("what does '{rest}' do there?")));
    }
    predicate(&expr, schema).map_err(wrong)
}

fn predicate(expr: &Expr, schema: &Schema) -> Result<Predicate, String> {
    match expr {
        Expr::Nested(inner) => predicate(inner, schema),
        Expr::BinaryOp { left, op, right } => match op {
            BinaryOperator::And => Ok(Predicate::And(vec![
                predicate(left, schema)?,
                predicate(right, schema)?,
            ])),
            BinaryOperator::Or => Ok(Predicate::Or(vec![
                predicate(left, schema)?,
                predicate(right, schema)?,
            ])),
            op => comparison(left, op, right, schema),
        },
        Expr::UnaryOp {
            op: UnaryOperator::Not,
            expr,
        } => Ok(Predicate::Not(Box::new(predicate(expr, schema)?))),
        Expr::IsNull(column) => Ok(Predicate::IsNull(column_name(column, schema)?)),
        Expr::IsNotNull(column) => Ok(Predicate::IsNotNull(column_name(column, schema)?)),
        Expr::In {
            expr,
            target: InTarget::List(list),
            negated,
            ..
        } => {
            let column = column_name(expr, schema)?;
            let values = list
                .iter()
                .map(|item| literal(item, &column, schema))
                .collect::<Result<Vec<_>, _>>()?;
            Ok(negate(Predicate::In(column, values), *negated))
        }
        Expr::Between {
            expr,
            negated,
            low,
            high,
        } => {
            let column = column_name(expr, schema)?;
            let both = Predicate::And(vec![
                Predicate::Ge(column.clone(), literal(low, &column, schema)?),
                Predicate::Le(column.clone(), literal(high, &column, schema)?),
            ]);
            Ok(negate(both, *negated))
        }
        Expr::Like {
            negated,
            any: false,
            expr,
            pattern,
            escape_char: None,
        } => {
            let column = column_name(expr, schema)?;
            match text_of(pattern)
                .as_deref()
                .and_then(|p| p.strip_suffix('%'))
            {
                Some(prefix) if !prefix.contains(['%', '_', '\\']) => {
                    let starts = Predicate::StartsWith(column, prefix.to_owned());
                    Ok(negate(starts, *negated))
                }
                _ => Err(format!(
                    "{expr} LIKE {pattern}: only LIKE 'prefix%' is known"
                )),
            }
        }
        // A column by itself is a truth value.
        Expr::Identifier(_) => {
            let column = column_name(expr, schema)?;
            match schema.field(&column).map(|(_, field)| &field.data_type) {
                Some(DataType::Boolean) => Ok(Predicate::Eq(column, Value::Boolean(true))),
                _ => Err(format!("{expr} is not a condition")),
            }
        }
        other => Err(format!(
            "{other}: write comparisons of a column with a value, joined by AND, OR and NOT"
        )),
    }
}

fn negate(predicate: Predicate, negated: bool) -> Predicate {
    match negated {
        true => Predicate::Not(Box::new(predicate)),
        false => predicate,
    }
}

fn comparison(
    left: &Expr,
    op: &BinaryOperator,
    right: &Expr,
    schema: &Schema,
) -> Result<Predicate, String> {
    type Make = fn(String, Value) -> Predicate;
    let (make, turned): (Make, Make) = match op {
        BinaryOperator::Eq => (Predicate::Eq, Predicate::Eq),
        BinaryOperator::NotEq => (Predicate::NotEq, Predicate::NotEq),
        BinaryOperator::Lt => (Predicate::Lt, Predicate::Gt),
        BinaryOperator::LtEq => (Predicate::Le, Predicate::Ge),
        BinaryOperator::Gt => (Predicate::Gt, Predicate::Lt),
        BinaryOperator::GtEq => (Predicate::Ge, Predicate::Le),
        other => return Err(format!("operator {other} is not known here")),
    };
    let (make, column, value) = match column_name(left, schema) {
        Ok(column) => (make, column, right),
        Err(reason) => match column_name(right, schema) {
            Ok(column) => (turned, column, left),
            Err(_) => return Err(reason),
        },
    };
    let value = literal(value, &column, schema)?;
    Ok(make(column, value))
}

fn column_name(expr: &Expr, schema: &Schema) -> Result<String, String> {
    let Expr::Identifier(name) = expr else {
        return Err(format!("{expr} is not a column"));
    };
    if schema.field(&name.value).is_some() {
        return Ok(name.value.clone());
    }
    let mut alike = schema
        .fields
        .iter()
        .filter(|field| field.name.eq_ignore_ascii_case(&name.value));
    match (alike.next(), alike.next()) {
        (Some(field), None) => Ok(field.name.clone()),
        _ => Err(format!("there is no column '{}'", name.value)),
    }
}

fn text_of(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Value(value) => match &value.value {
            SqlValue::SingleQuotedString(text) | SqlValue::Number(text, _) => Some(text.clone()),
            SqlValue::Boolean(value) => Some(value.to_string()),
            _ => None,
        },
        Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr,
        } => text_of(expr).map(|text| format!("-{text}")),
        // DATE '2026-11-30', TIMESTAMP '…'
        Expr::TypedString(typed) => match &typed.value.value {
            SqlValue::SingleQuotedString(text) => Some(text.clone()),
            _ => None,
        },
        Expr::Nested(inner) => text_of(inner),
        _ => None,
    }
}

/// A value in the column's type.
fn literal(expr: &Expr, column: &str, schema: &Schema) -> Result<Value, String> {
    let Some((_, field)) = schema.field(column) else {
        return Err(format!("there is no column '{column}'"));
    };
    let data_type = &field.data_type;
    let wrong = || format!("{expr} is no value of column '{column}' ({data_type})");
    let text = text_of(expr).ok_or_else(wrong)?;
    value(&text, data_type).ok_or_else(wrong)
}

fn value(text: &str, data_type: &DataType) -> Option<Value> {
    Some(match data_type {
        DataType::Boolean => Value::Boolean(text.parse().ok()?),
        DataType::TinyInt => Value::TinyInt(text.parse().ok()?),
        DataType::SmallInt => Value::SmallInt(text.parse().ok()?),
        DataType::Int => Value::Int(text.parse().ok()?),
        DataType::BigInt => Value::BigInt(text.parse().ok()?),
        DataType::Float => Value::Float(text.parse().ok()?),
        DataType::Double => Value::Double(text.parse().ok()?),
        DataType::Decimal(_, scale) => Value::Decimal(digits(text, *scale)?),
        DataType::Char(_) | DataType::VarChar(_) | DataType::String => {
            Value::Bytes(text.as_bytes().to_vec())
        }
        DataType::Date => {
            let date: civil::Date = text.parse().ok()?;
            let days = (date - civil::date(1970, 1, 1)).get_days();
            Value::Int(days)
        }
        DataType::Time(_) => {
            let time: civil::Time = text.parse().ok()?;
            let since = time - civil::Time::midnight();
            Value::Int(i32::try_from(since.total(jiff::Unit::Millisecond).ok()? as i64).ok()?)
        }
        DataType::Timestamp(_) => {
            let time: civil::DateTime = text.replace(' ', "T").parse().ok()?;
            let time = time.to_zoned_datetime(jiff::tz::TimeZone::UTC).ok()?;
            timestamp(time.timestamp())
        }
        DataType::TimestampLtz(_) => timestamp(text.replace(' ', "T").parse().ok()?),
        _ => return None,
    })
}

fn timestamp(time: jiff::Timestamp) -> Value {
    let nanos = time.as_nanosecond();
    Value::Timestamp {
        millis: i64::try_from(nanos.div_euclid(1_000_000)).unwrap_or(0),
        nanos: i32::try_from(nanos.rem_euclid(1_000_000)).unwrap_or(0),
    }
}

/// A decimal's digits in a scale: `1.5` in scale 2 is 150. `None` when digits would be lost.
fn digits(text: &str, scale: u8) -> Option<i128> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let fraction = fraction.trim_end_matches('0');
    let scale = usize::from(scale);
    if fraction.len() > scale || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    format!("{whole}{fraction:0<scale$}").parse().ok()
}
