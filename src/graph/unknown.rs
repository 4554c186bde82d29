//! What is said of a name that no entity has: those that are most like it.

use std::collections::HashMap;

use graphrag_text::names;
use pgrx::PgSqlErrorCode;

use crate::collection::{Collection, quoted};
use crate::error::{Error, Result};
use crate::search::Scope;

/// Names that are offered.
const OFFERED: usize = 3;

/// Characters of a name that are shown.
const LONGEST: usize = 80;

/// Names that are compared: who asks for a name that is not there should not wait for a second.
const COMPARED: i64 = 100_000;

/// P0002: no entity is called so. The HINT has the names most like it.
pub fn unknown(collection: &Collection, name: &str) -> Result<Error> {
    let error = Error::new(
        PgSqlErrorCode::ERRCODE_NO_DATA_FOUND,
        format!(
            "entity {} does not exist in collection {}",
            quoted(name),
            quoted(&collection.name)
        ),
    );
    Ok(match hint(collection, name, None)? {
        Some(hint) => error.hint(hint),
        None => error,
    })
}

/// The names most like one that is unknown, of those that the caller may see under `scope`.
pub fn hint(collection: &Collection, name: &str, scope: Option<&Scope>) -> Result<Option<String>> {
    let scope = scope.filter(|scope| !scope.is_everything());
    // The merged rows serve those who see everything.
    let sql = match (scope, collection.has_row_security()?) {
        (None, false) => "SELECT key, name FROM {s}.entity LIMIT $1".to_owned(),
        (scope, _) => format!(
            "SELECT m.key, min(m.name COLLATE \"C\") FROM {{s}}.mention m JOIN {{s}}.document d ON d.id = m.document_id \
             WHERE {} GROUP BY 1 LIMIT $1",
            scope.map_or("true", Scope::on_document)
        ),
    };
    let mut shown: HashMap<String, String> = HashMap::new();
    let mut args = vec![COMPARED.into()];
    args.extend(scope.into_iter().flat_map(|scope| [scope.filter(), scope.documents()]));
    collection.stream(&sql, &args, |row| {
        shown.insert(row.need(1)?, row.need(2)?);
        Ok(())
    })?;
    let near = names::nearest(name, shown.keys().map(String::as_str), OFFERED);
    let near: Vec<String> = near.iter().map(|&key| quoted(&short(&shown[key]))).collect();
    Ok(match near.split_last() {
        None => None,
        Some((last, [])) => Some(format!("Did you mean {last}?")),
        Some((last, rest)) => Some(format!("Did you mean {} or {last}?", rest.join(", "))),
    })
}

/// A name as one line of a message.
fn short(name: &str) -> String {
    let line: String = name
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(LONGEST)
        .collect();
    match name.chars().count() > LONGEST {
        true => format!("{line}…"),
        false => line,
    }
}
