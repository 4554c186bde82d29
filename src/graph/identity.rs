//! Communities as rows that stay the same from run to run: one with the same members keeps its row and its report, one that has changed
//! keeps the row of its closest ancestor.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::collection::Collection;
use crate::error::Result;

/// A community as it is to stand in the tables.
pub struct Wanted {
    pub partition: u32,
    pub level: i32,
    /// Its place in the list of all.
    pub parent: Option<usize>,
    pub hash: Vec<u8>,
    /// Ids of entities.
    pub members: Vec<i64>,
}

/// Of two communities that share less of what they have in all, neither comes from the other.
const LEAST_SHARED: f64 = 1.0 / 3.0;

/// Writes the communities; answers their ids, in order.
pub fn store(collection: &Collection, partitions: &[String], wanted: &[Wanted]) -> Result<Vec<i64>> {
    let names: Vec<&str> = wanted
        .iter()
        .map(|c| partitions[c.partition as usize].as_str())
        .collect();
    let hashes: Vec<Vec<u8>> = wanted.iter().map(|c| c.hash.clone()).collect();
    let levels: Vec<i32> = wanted.iter().map(|c| c.level).collect();
    let sizes: Vec<i32> = wanted.iter().map(|c| c.members.len() as i32).collect();
    let (mut ids, lost) = known(collection, &names, &hashes, wanted)?;
    let kept: Vec<i64> = ids.iter().flatten().copied().collect();
    let mut changed = adopt(collection, &names, wanted, &mut ids, &kept)?;
    changed.extend(lost);
    changed.sort_unstable();

    let sql = "DELETE FROM {s}.community_entity m WHERE NOT EXISTS (SELECT FROM {s}.community c WHERE c.id = m.community_id) \
               OR NOT EXISTS (SELECT FROM {s}.entity e WHERE e.id = m.entity_id)";
    collection.execute(sql, &[])?;
    // Otherwise children would go with a parent that goes.
    let all: Vec<i64> = ids.iter().flatten().copied().collect();
    collection.execute(
        "UPDATE {s}.community SET parent_id = NULL WHERE parent_id <> ALL ($1)",
        &[all.clone().into()],
    )?;
    collection.execute("DELETE FROM {s}.community WHERE id <> ALL ($1)", &[all.into()])?;
    // What was written of other members says what the new documents may not.
    let sql = "UPDATE {s}.community c SET member_hash = u.hash, size = u.size, level = u.level, stale = true, title = NULL, \
                 summary = NULL, findings = NULL, text = NULL, rating = NULL, embedding = NULL \
               FROM unnest($1::bigint[], $2::bytea[], $3::int[], $4::int[]) AS u (id, hash, size, level) WHERE c.id = u.id";
    let pick = |at: &usize| {
        (
            ids[*at].unwrap_or_default(),
            hashes[*at].clone(),
            sizes[*at],
            levels[*at],
        )
    };
    let rows: Vec<(i64, Vec<u8>, i32, i32)> = changed.iter().map(pick).collect();
    let args = [
        rows.iter().map(|row| row.0).collect::<Vec<i64>>().into(),
        rows.iter().map(|row| row.1.clone()).collect::<Vec<_>>().into(),
        rows.iter().map(|row| row.2).collect::<Vec<i32>>().into(),
        rows.iter().map(|row| row.3).collect::<Vec<i32>>().into(),
    ];
    collection.execute(sql, &args)?;
    let sql = "DELETE FROM {s}.community_entity WHERE community_id = ANY ($1)";
    collection.execute(sql, &[rows.iter().map(|row| row.0).collect::<Vec<i64>>().into()])?;

    let new: Vec<usize> = (0..wanted.len()).filter(|&at| ids[at].is_none()).collect();
    let sql = "INSERT INTO {s}.community (level, partition, member_hash, size) \
               SELECT u.level, u.partition, u.hash, u.size \
               FROM unnest($1::int[], $2::text[], $3::bytea[], $4::int[]) WITH ORDINALITY AS u (level, partition, hash, size, n) \
               ORDER BY u.n RETURNING id";
    let args = [
        new.iter().map(|&at| levels[at]).collect::<Vec<i32>>().into(),
        new.iter().map(|&at| names[at]).collect::<Vec<&str>>().into(),
        new.iter().map(|&at| hashes[at].clone()).collect::<Vec<_>>().into(),
        new.iter().map(|&at| sizes[at]).collect::<Vec<i32>>().into(),
    ];
    for (at, id) in new.iter().zip(collection.returning(sql, &args, |row| row.need(1))?) {
        ids[*at] = Some(id);
    }
    let ids: Vec<i64> = ids.into_iter().flatten().collect();
    let parents: Vec<Option<i64>> = wanted.iter().map(|c| c.parent.map(|parent| ids[parent])).collect();
    let sql = "UPDATE {s}.community c SET level = u.level, parent_id = u.parent \
               FROM unnest($1::bigint[], $2::int[], $3::bigint[]) AS u (id, level, parent) \
               WHERE c.id = u.id AND (c.level <> u.level OR c.parent_id IS DISTINCT FROM u.parent)";
    collection.execute(sql, &[ids.clone().into(), levels.into(), parents.into()])?;

    let (mut community, mut entity) = (Vec::new(), Vec::new());
    for at in changed.iter().chain(&new) {
        community.extend(std::iter::repeat_n(ids[*at], wanted[*at].members.len()));
        entity.extend_from_slice(&wanted[*at].members);
    }
    let sql =
        "INSERT INTO {s}.community_entity (community_id, entity_id) SELECT * FROM unnest($1::bigint[], $2::bigint[])";
    collection.execute(sql, &[community.into(), entity.into()])?;
    Ok(ids)
}

/// The rows of communities whose members are called as before, and those among them whose members are not the same: one has gone meanwhile,
/// and another that is called so has come.
fn known(
    collection: &Collection,
    names: &[&str],
    hashes: &[Vec<u8>],
    wanted: &[Wanted],
) -> Result<(Vec<Option<i64>>, Vec<usize>)> {
    let sql = "SELECT c.id, ARRAY(SELECT e.entity_id FROM {s}.community_entity e WHERE e.community_id = c.id ORDER BY 1) \
               FROM unnest($1::text[], $2::bytea[]) WITH ORDINALITY AS u (partition, hash, n) \
               LEFT JOIN {s}.community c ON c.partition = u.partition AND c.member_hash = u.hash ORDER BY u.n";
    let (mut ids, mut lost) = (Vec::with_capacity(wanted.len()), Vec::new());
    let args = [names.to_vec().into(), hashes.to_vec().into()];
    let found = collection.returning(sql, &args, |row| Ok((row.get::<i64>(1)?, row.need::<Vec<i64>>(2)?)))?;
    for (at, (id, held)) in found.into_iter().enumerate() {
        let mut members = wanted[at].members.clone();
        members.sort_unstable();
        if id.is_some() && members != held {
            lost.push(at);
        }
        ids.push(id);
    }
    Ok((ids, lost))
}

/// Gives those that have no row the row of the closest community that goes; answers which have got one.
fn adopt(
    collection: &Collection,
    names: &[&str],
    wanted: &[Wanted],
    ids: &mut [Option<i64>],
    kept: &[i64],
) -> Result<Vec<usize>> {
    let mut old: HashMap<i64, usize> = HashMap::new();
    let mut of_entity: HashMap<(String, i64), Vec<i64>> = HashMap::new();
    let sql = "SELECT c.partition, c.id, e.entity_id FROM {s}.community c JOIN {s}.community_entity e ON e.community_id = c.id \
               WHERE c.id <> ALL ($1) ORDER BY c.id";
    collection.stream(sql, &[kept.to_vec().into()], |row| {
        let id = row.need(2)?;
        *old.entry(id).or_default() += 1;
        of_entity.entry((row.need(1)?, row.need(3)?)).or_default().push(id);
        Ok(())
    })?;
    if old.is_empty() {
        return Ok(Vec::new());
    }
    let mut pairs: Vec<(f64, usize, i64)> = Vec::new();
    for (at, community) in wanted.iter().enumerate().filter(|(at, _)| ids[*at].is_none()) {
        let mut shared: BTreeMap<i64, usize> = BTreeMap::new();
        let mut key = (names[at].to_owned(), 0);
        for &member in &community.members {
            key.1 = member;
            for id in of_entity.get(&key).into_iter().flatten() {
                *shared.entry(*id).or_default() += 1;
            }
        }
        for (id, shared) in shared {
            let all = community.members.len() + old[&id] - shared;
            let part = shared as f64 / all as f64;
            if part >= LEAST_SHARED {
                pairs.push((part, at, id));
            }
        }
    }
    pairs.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)).then(a.2.cmp(&b.2)));
    let mut taken = HashSet::new();
    let mut changed = Vec::new();
    for (_, at, id) in pairs {
        if ids[at].is_none() && taken.insert(id) {
            ids[at] = Some(id);
            changed.push(at);
        }
    }
    changed.sort_unstable();
    Ok(changed)
}
