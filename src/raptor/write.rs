//! Writes a planned tree.

use graphrag_cluster::Child;

use super::plan::{Leaf, Plan, Summary};
use crate::collection::Collection;
use crate::error::Result;
use crate::pg::{spi, tick, vector};

/// Summaries that are written at once.
const BATCH: usize = 200;

/// Selects, of `$1` parents and `$2` children, the pairs of metadata that all children of a parent share: what they share is what
/// all documents below share.
const SHARED: &str = "pair AS (SELECT u.parent, e.key, e.value, count(*) AS having \
      FROM unnest($1::bigint[], $2::bigint[]) AS u (parent, child) JOIN {s}.node n ON n.id = u.child, jsonb_each(n.metadata) e \
      GROUP BY 1, 2, 3), \
    size AS (SELECT parent, count(*) AS children FROM unnest($1) AS u (parent) GROUP BY 1), \
    shared AS (SELECT p.parent, jsonb_object_agg(p.key, p.value) AS pairs FROM pair p JOIN size USING (parent) \
      WHERE p.having = size.children GROUP BY 1)";

/// Puts the tree of one partition in the place of the old one, children before parents. Nodes that are kept are written only where they differ.
pub fn write(collection: &Collection, partition: &str, plan: Plan) -> Result<()> {
    let kept: Vec<i64> = plan.summaries.iter().filter_map(|summary| summary.kept).collect();
    let sql = "DELETE FROM {s}.node WHERE level > 0 AND partition = $1 AND NOT id = ANY ($2)";
    collection.execute(sql, &[partition.into(), kept.into()])?;
    let mut nodes = Nodes {
        leaves: plan.leaves,
        summaries: Vec::new(),
    };
    // A statement writes nodes of one level only: it reads the metadata of their children.
    for level in plan.summaries.chunk_by(|a, b| a.level == b.level) {
        for part in level.chunks(BATCH) {
            let ids = write_part(collection, partition, &nodes, part)?;
            nodes.summaries.extend(ids);
            tick();
        }
    }
    Ok(())
}

/// The ids of nodes by their numbers.
struct Nodes {
    leaves: Vec<Leaf>,
    summaries: Vec<i64>,
}

impl Nodes {
    /// The nodes that a child stands for: of a leaf, its copies, too.
    fn of(&self, child: &Child) -> impl Iterator<Item = i64> {
        let number = child.node as usize;
        let leaf = self.leaves.get(number);
        let first = leaf.map_or_else(|| self.summaries[number - self.leaves.len()], |leaf| leaf.id);
        let copies = leaf.map_or(&[][..], |leaf| &leaf.copies);
        std::iter::once(first).chain(copies.iter().map(|(id, _)| *id))
    }
}

fn write_part(collection: &Collection, partition: &str, nodes: &Nodes, summaries: &[Summary]) -> Result<Vec<i64>> {
    let new: Vec<&Summary> = summaries.iter().filter(|summary| summary.kept.is_none()).collect();
    let sql = "SELECT nextval(pg_get_serial_sequence($1, 'id')) FROM generate_series(1, $2)";
    let table = format!("{}.node", collection.schema);
    let args = [table.into(), (new.len() as i32).into()];
    let new_ids: Vec<i64> = collection.returning(sql, &args, |row| row.need(1))?;
    let mut next = new_ids.iter().copied();
    let ids: Vec<i64> = summaries
        .iter()
        .filter_map(|summary| summary.kept.or_else(|| next.next()))
        .collect();
    let (mut parents, mut children, mut weights) = (Vec::new(), Vec::new(), Vec::new());
    let (mut sources, mut source_of) = (Vec::new(), Vec::new());
    for (id, summary) in ids.iter().zip(summaries) {
        for child in &summary.children {
            for node in nodes.of(child) {
                parents.push(*id);
                children.push(node);
                weights.push(f64::from(child.weight));
            }
        }
        source_of.extend(std::iter::repeat_n(*id, summary.documents.len()));
        sources.extend_from_slice(&summary.documents);
    }
    insert(collection, partition, &new_ids, &new, &parents, &children)?;
    let kept: Vec<&Summary> = summaries.iter().filter(|summary| summary.kept.is_some()).collect();
    if !kept.is_empty() {
        let counts: Vec<i32> = kept.iter().map(|summary| summary.documents.len() as i32).collect();
        let kept: Vec<i64> = kept.iter().filter_map(|summary| summary.kept).collect();
        settle(collection, &kept, counts, [&parents, &children, &source_of, &sources])?;
    }
    let sql = "INSERT INTO {s}.node_child AS c (parent_id, child_id, weight) SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::float8[]) \
               ON CONFLICT (parent_id, child_id) DO UPDATE SET weight = excluded.weight WHERE c.weight <> excluded.weight";
    collection.execute(sql, &[parents.into(), children.into(), weights.into()])?;
    let sql = "INSERT INTO {s}.node_source (node_id, document_id) SELECT * FROM unnest($1::bigint[], $2::bigint[]) ON CONFLICT DO NOTHING";
    collection.execute(sql, &[source_of.into(), sources.into()])?;
    Ok(ids)
}

fn insert(
    collection: &Collection,
    partition: &str,
    ids: &[i64],
    summaries: &[&Summary],
    parents: &[i64],
    children: &[i64],
) -> Result<()> {
    let of = |value: fn(&Summary) -> i32| summaries.iter().map(|s| value(s)).collect::<Vec<i32>>();
    let sql = format!(
        "WITH {SHARED} \
         INSERT INTO {{s}}.node (id, level, partition, text, text_hash, token_count, metadata, embedding, source_count, stale, member_hash) \
         SELECT u.id, u.level, $8, u.text, u.text_hash, u.token_count, coalesce(s.pairs, '{{}}'), u.embedding, u.source_count, \
                u.stale, u.member_hash \
         FROM unnest($3::bigint[], $4::text[], $5::bytea[], $6::int[], $7::{{v}}.vector[], $9::int[], $10::int[], $11::boolean[], $12::bytea[]) \
              AS u (id, text, text_hash, token_count, embedding, level, source_count, stale, member_hash) \
         LEFT JOIN shared s ON s.parent = u.id ORDER BY u.id"
    );
    let args: [spi::Arg; 12] = [
        parents.to_vec().into(),
        children.to_vec().into(),
        ids.to_vec().into(),
        summaries.iter().map(|s| s.text.clone()).collect::<Vec<_>>().into(),
        summaries.iter().map(|s| s.hash.clone()).collect::<Vec<_>>().into(),
        of(|s| s.tokens).into(),
        vector::Vectors(summaries.iter().map(|s| s.embedding.as_deref()).collect()).into(),
        partition.into(),
        of(|s| s.level as i32).into(),
        of(|s| s.documents.len() as i32).into(),
        summaries.iter().map(|s| s.stale).collect::<Vec<bool>>().into(),
        summaries
            .iter()
            .map(|s| s.member_hash.clone())
            .collect::<Vec<_>>()
            .into(),
    ];
    collection.execute(&sql, &args)?;
    Ok(())
}

/// Takes from nodes that are kept the children and sources that they do not have any more, and brings their metadata up to date.
fn settle(collection: &Collection, kept: &[i64], counts: Vec<i32>, links: [&Vec<i64>; 4]) -> Result<()> {
    let [parents, children, source_of, sources] = links;
    let all = |ids: &[i64]| spi::Arg::from(ids.to_vec());
    let of = |table: &str, owner: &str, other: &str| {
        format!(
            "DELETE FROM {{s}}.{table} t WHERE t.{owner} = ANY ($1) AND NOT EXISTS \
               (SELECT FROM unnest($2::bigint[], $3::bigint[]) AS u (owner, other) WHERE u.owner = t.{owner} AND u.other = t.{other})"
        )
    };
    let sources_of = [all(kept), all(source_of), all(sources)];
    collection.execute(&of("node_source", "node_id", "document_id"), &sources_of)?;
    let children_of = [all(kept), all(parents), all(children)];
    collection.execute(&of("node_child", "parent_id", "child_id"), &children_of)?;
    let sql = format!(
        "WITH {SHARED}, now AS (SELECT u.id, u.count, coalesce(s.pairs, '{{}}') AS pairs \
           FROM unnest($3::bigint[], $4::int[]) AS u (id, count) LEFT JOIN shared s ON s.parent = u.id) \
         UPDATE {{s}}.node n SET metadata = now.pairs, source_count = now.count FROM now \
         WHERE n.id = now.id AND (n.metadata <> now.pairs OR n.source_count <> now.count)"
    );
    collection.execute(&sql, &[all(parents), all(children), all(kept), counts.into()])?;
    Ok(())
}
