//! Rows of a table as entities: which name is whose.

use std::collections::HashMap;

use crate::fold;

/// A row: its key, its name as written, and its names folded, that one first, each once.
pub struct Row {
    pub key: String,
    pub name: String,
    pub names: Vec<String>,
}

/// The entity that a name leads to already, with its own folded name; `taken` if it is another table's.
pub struct Found {
    pub entity: i64,
    pub key: String,
    pub taken: bool,
}

/// Answers where names lead, for those that lead somewhere.
pub type LookUp<'a, E> = dyn FnMut(&[&str]) -> Result<HashMap<String, Found>, E> + 'a;

/// What a row is called: one name of its own, and others that lead to it.
#[derive(Debug, PartialEq)]
pub struct Named {
    pub key: String,
    pub shown: String,
    /// The entity that is called so already.
    pub entity: Option<i64>,
    /// Sorted.
    pub others: Vec<String>,
}

/// The rows by position; None where a row has no name of its own.
#[derive(Debug)]
pub struct Assigned {
    pub rows: Vec<Option<Named>>,
    /// Names that several rows have.
    pub shared: usize,
    /// Names of one row that lead to an entity that is something else.
    pub taken: usize,
}

/// Gives each name to the one row that has it, and each entity to the one row that is called like it. A name that several
/// rows have is nobody's; a row whose name is not its own is called `name (key)`.
///
/// It depends on the rows and on what `look_up` answers for names alone, not on the order of the rows.
pub fn assign<E>(rows: &[Row], look_up: &mut LookUp<E>, tick: &mut dyn FnMut()) -> Result<Assigned, E> {
    let with_keys: Vec<(String, String)> = rows
        .iter()
        .map(|row| {
            tick();
            let shown = format!("{} ({})", row.name, row.key);
            (fold::name(&shown), shown)
        })
        .collect();
    let mut names = Names::default();
    for (at, row) in rows.iter().enumerate() {
        for name in &row.names {
            names.add(name, at);
        }
        tick();
    }
    let shared = names.owners.values().filter(|owner| owner.is_none()).count();
    names.find(names.own(), look_up)?;
    let claims = names.claims();
    let mut made: Vec<(usize, &str)> = vec![];
    for (at, row) in rows.iter().enumerate() {
        let name = with_keys[at].0.as_str();
        let needs = row.names.first().is_some_and(|first| !names.is_of(first, at, &claims));
        if needs && name.len() <= LONGEST && !names.owners.contains_key(name) {
            made.push((at, name));
        }
        tick();
    }
    for &(at, name) in &made {
        names.add(name, at);
    }
    names.find(made.iter().map(|(_, name)| *name).collect(), look_up)?;
    let claims = names.claims();

    let mut assigned = Assigned {
        rows: Vec::with_capacity(rows.len()),
        shared,
        taken: 0,
    };
    for (at, row) in rows.iter().enumerate() {
        tick();
        let own = |name: &str| names.is_of(name, at, &claims);
        let plain = row.names.iter().map(|name| (name.as_str(), name.as_str()));
        let first = plain.clone().take(1).map(|(key, _)| (key, row.name.as_str()));
        let made = [(with_keys[at].0.as_str(), with_keys[at].1.as_str())];
        let Some((key, shown)) = first.chain(made).chain(plain.skip(1)).find(|(key, _)| own(key)) else {
            assigned.rows.push(None);
            continue;
        };
        let entity = names.found.get(key).map(|found| found.entity);
        let mut others = vec![];
        for name in row.names.iter().filter(|name| *name != key) {
            let found = names.found.get(name.as_str());
            if own(name) && found.is_none_or(|found| found.key == *name) {
                others.push(name.clone());
            } else if names.owners.get(name.as_str()) == Some(&Some(at))
                && found.is_some_and(|found| Some(found.entity) != entity)
            {
                assigned.taken += 1;
            }
        }
        others.sort_unstable();
        assigned.rows.push(Some(Named {
            key: key.to_owned(),
            shown: shown.to_owned(),
            entity,
            others,
        }));
    }
    Ok(assigned)
}

/// The bytes that a folded name may have.
const LONGEST: usize = 2000;

#[derive(Default)]
struct Names<'a> {
    /// The row that alone has a name; None if several have it.
    owners: HashMap<&'a str, Option<usize>>,
    found: HashMap<String, Found>,
}

impl<'a> Names<'a> {
    fn add(&mut self, name: &'a str, row: usize) {
        self.owners
            .entry(name)
            .and_modify(|owner| *owner = owner.filter(|owner| *owner == row))
            .or_insert(Some(row));
    }

    fn own(&self) -> Vec<&'a str> {
        let own = self.owners.iter().filter(|(_, owner)| owner.is_some());
        let mut own: Vec<&str> = own.map(|(name, _)| *name).collect();
        own.sort_unstable();
        own
    }

    fn find<E>(&mut self, names: Vec<&str>, look_up: &mut LookUp<E>) -> Result<(), E> {
        if !names.is_empty() {
            self.found.extend(look_up(&names)?);
        }
        Ok(())
    }

    /// The row of each entity that was found: the one that has its own name, else the one that alone has other names of it.
    fn claims(&self) -> HashMap<i64, Option<usize>> {
        let mut claims: HashMap<i64, Option<usize>> = HashMap::new();
        for (name, found) in &self.found {
            let owner = self.owners.get(name.as_str()).copied().flatten();
            let claim = match self.owners.get(found.key.as_str()) {
                Some(owner) => *owner,
                None => owner,
            };
            claims
                .entry(found.entity)
                .and_modify(|other| *other = other.filter(|other| Some(*other) == claim))
                .or_insert(claim);
        }
        claims
    }

    fn is_of(&self, name: &str, row: usize, claims: &HashMap<i64, Option<usize>>) -> bool {
        self.owners.get(name) == Some(&Some(row))
            && self
                .found
                .get(name)
                .is_none_or(|found| !found.taken && claims.get(&found.entity) == Some(&Some(row)))
    }
}

/// The predicate of a foreign key: the name of its column, without what says that it is one (`manager_id`, `managerId`).
pub fn predicate(column: &str) -> &str {
    let lower = column.to_ascii_lowercase();
    let ends = ["_id", "_key", "_fk", "_uuid"].iter().find(|end| lower.ends_with(*end));
    let short = match ends {
        Some(end) => &column[..column.len() - end.len()],
        None => match column.strip_suffix("Id").or(column.strip_suffix("ID")) {
            Some(short) if short.ends_with(char::is_lowercase) => short,
            _ => column,
        },
    };
    match fold::predicate(short).is_empty() {
        true => column,
        false => short,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(key: &str, names: &[&str]) -> Row {
        Row {
            key: key.to_owned(),
            name: names[0].to_owned(),
            names: names.iter().map(|name| fold::name(name)).collect(),
        }
    }

    fn called(rows: &[Row], known: &[(&str, i64, &str, bool)]) -> Vec<String> {
        let assigned = assign::<()>(
            rows,
            &mut |names| {
                let known = known.iter().filter(|(name, ..)| names.contains(name));
                Ok(known
                    .map(|&(name, entity, key, taken)| {
                        let key = key.to_owned();
                        (name.to_owned(), Found { entity, key, taken })
                    })
                    .collect())
            },
            &mut || {},
        )
        .unwrap();
        let shown = assigned.rows.into_iter().map(|row| match row {
            Some(row) => format!("{} {:?} {}", row.shown, row.entity, row.others.join(",")),
            None => "-".to_owned(),
        });
        shown.collect()
    }

    #[test]
    fn a_name_of_one_row_is_its_own() {
        let rows = [row("1", &["Ada Lovelace", "AL"]), row("2", &["Bob"])];
        assert_eq!(
            called(&rows, &[("bob", 7, "bob", false), ("al", 8, "al", false)]),
            ["Ada Lovelace None al", "Bob Some(7) "]
        );
    }

    #[test]
    fn a_name_of_two_is_nobodys() {
        let rows = [
            row("1", &["John Smith", "js"]),
            row("2", &["john smith", "js"]),
            row("3", &["John Smith (1)"]),
        ];
        assert_eq!(
            called(&rows, &[("john smith", 7, "john smith", false)]),
            ["-", "john smith (2) None ", "John Smith (1) None "]
        );
    }

    #[test]
    fn what_is_another_tables_stays_its_own() {
        let rows = [row("1", &["Mercury"]), row("2", &["Venus", "mercury"])];
        let known = [("mercury", 1, "mercury", true), ("venus", 2, "venus", true)];
        assert_eq!(called(&rows, &known), ["Mercury (1) None ", "Venus (2) None "]);
    }

    #[test]
    fn an_entity_is_the_row_that_has_its_own_name() {
        let rows = [row("1", &["Ada"]), row("2", &["A. L."]), row("3", &["Countess"])];
        let known = [
            ("ada", 1, "ada", false),
            ("a. l.", 1, "ada", false),
            ("countess", 2, "lady", false),
        ];
        assert_eq!(
            called(&rows, &known),
            ["Ada Some(1) ", "A. L. (2) None ", "Countess Some(2) "]
        );
    }

    #[test]
    fn two_rows_with_other_names_of_an_entity_do_not_share_it() {
        let rows = [row("1", &["A"]), row("2", &["B"])];
        let known = [("a", 1, "c", false), ("b", 1, "c", false)];
        assert_eq!(called(&rows, &known), ["A (1) None ", "B (2) None "]);
    }

    #[test]
    fn a_foreign_key_loses_its_ending() {
        for (column, wanted) in [
            ("manager_id", "manager"),
            ("Manager_ID", "Manager"),
            ("managerId", "manager"),
            ("reports_to", "reports_to"),
            ("_id", "_id"),
            ("id", "id"),
            ("PAID", "PAID"),
            ("dept_key", "dept"),
            ("grid", "grid"),
            ("größe_id", "größe"),
        ] {
            assert_eq!(predicate(column), wanted, "{column}");
        }
    }
}
