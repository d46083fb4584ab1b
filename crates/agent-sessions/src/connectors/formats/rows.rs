//! Reads the columns of database rows by name. A column that a version of the database lacks is
//! treated as absent, and a value of another type affects only itself.

use rusqlite::Row;
use rusqlite::types::ValueRef;
use xxhash_rust::xxh3::Xxh3;

use super::sqlite;
use crate::model::{Extensions, Json};

/// Returns a select list that reads values up to the size limit.
pub fn bounded_select_list(columns: &[String]) -> String {
    let read = |column: &String| {
        format!("{} AS {}", sqlite::size_bounded_column(column), sqlite::quoted_column(column))
    };
    columns.iter().map(read).collect::<Vec<_>>().join(", ")
}

/// Returns a text column. An empty text counts as absent.
pub fn text_column(row: &Row<'_>, column: &str) -> Option<String> {
    let text = match row.get_ref(column).ok()? {
        ValueRef::Text(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        ValueRef::Integer(number) => number.to_string(),
        _ => return None,
    };
    Some(text).filter(|text| !text.is_empty())
}

/// Returns a column of whole numbers.
pub fn number_column(row: &Row<'_>, column: &str) -> Option<i64> {
    row.get_ref(column).ok()?.as_i64().ok()
}

/// Returns a column of counts. Anything but a count is 0.
pub fn count_column(row: &Row<'_>, column: &str) -> u64 {
    number_column(row, column).and_then(|number| u64::try_from(number).ok()).unwrap_or(0)
}

/// Returns a column of numbers, with or without a fraction.
pub fn real_column(row: &Row<'_>, column: &str) -> Option<f64> {
    match row.get_ref(column).ok()? {
        ValueRef::Integer(number) => Some(number as f64),
        ValueRef::Real(number) => Some(number).filter(|number| number.is_finite()),
        _ => None,
    }
}

/// Keeps the columns that have no field in the model.
pub fn keep_unmodeled_columns(row: &Row<'_>, known: &[&str], extensions: &mut Extensions) {
    let columns = row.as_ref().column_names();
    for column in columns.into_iter().filter(|column| !known.contains(column)) {
        extensions.extend(json_column(row, column).map(|value| (column.to_owned(), value)));
    }
}

/// Returns a column as JSON. A text that contains JSON is parsed.
pub fn json_column(row: &Row<'_>, column: &str) -> Option<Json> {
    match row.get_ref(column).ok()? {
        ValueRef::Integer(number) => Some(Json::from_value(&number)),
        ValueRef::Real(number) => Some(Json::from_value(&number)),
        ValueRef::Text(bytes) => {
            let text = String::from_utf8_lossy(bytes);
            let parsed = Some(&text).filter(|text| text.starts_with(['{', '[']));
            let parsed = parsed.and_then(|text| serde_json::from_str(text).ok());
            Some(parsed.unwrap_or_else(|| Json::from_value(&text)))
        }
        _ => None,
    }
}

/// Hashes all columns of a row.
pub fn hash_row(row: &Row<'_>, hash: &mut Xxh3) {
    for column in 0..row.as_ref().column_count() {
        match row.get_ref(column) {
            Ok(ValueRef::Integer(number)) => hash.update(&number.to_le_bytes()),
            Ok(ValueRef::Real(number)) => hash.update(&number.to_le_bytes()),
            Ok(ValueRef::Text(bytes) | ValueRef::Blob(bytes)) => hash.update(bytes),
            Ok(ValueRef::Null) | Err(_) => {}
        }
        // Separates the columns.
        hash.update(&[0xff]);
    }
}
