//! raptor_build.

use graphrag_cluster::{BuildError, Method, Options, Summarize, Vectors, build, bytes_needed};
use graphrag_text::tokens;
use pgrx::prelude::*;
use sha2::{Digest, Sha256};

use crate::collection::Collection;
use crate::error::{Error, Result, in_range, required, sql};
use crate::pg::{memory, tick, vector};
use crate::progress::Progress;
use crate::{ingest, search};

/// What a leaf costs beside its vector: its id, and its document in the lists of the levels above.
const BYTES_PER_LEAF: usize = 128;

/// SQL: `raptor_build(collection, method, max_levels, cluster_size)`.
#[pg_extern(sql = false)]
fn raptor_build(
    collection: Option<&str>,
    method: Option<&str>,
    max_levels: Option<i32>,
    cluster_size: Option<i32>,
) -> sql::Result<TableIterator<'static, (name!(level, i32), name!(nodes, i64), name!(calls, i64))>> {
    Ok(TableIterator::new(raptor(
        collection,
        method,
        max_levels,
        cluster_size,
    )?))
}

fn raptor(
    name: Option<&str>,
    method: Option<&str>,
    max_levels: Option<i32>,
    cluster_size: Option<i32>,
) -> Result<Vec<(i32, i64, i64)>> {
    match required(method, "method")? {
        "greedy" => {}
        other => {
            return Err(
                Error::invalid(format!("unknown method \"{other}\"")).hint("The method of this version is 'greedy'.")
            );
        }
    }
    let max_levels = max_levels
        .map(|levels| in_range(Some(levels), "max_levels", 1..=64))
        .transpose()?;
    let cluster_size = cluster_size
        .map(|size| in_range(Some(size), "cluster_size", 2..=1000))
        .transpose()?;
    let collection = Collection::build_nodes(name)?;
    let options = Options {
        method: Method::Greedy,
        cluster_size: cluster_size.map_or(collection.options.cluster_size as usize, |size| size as usize),
        max_levels: max_levels.map(|levels| levels as u32),
    };
    ingest::take_up(&collection)?;
    collection.analyze(&["node"])?;
    let sql = "SELECT partition, count(*) FROM {s}.node WHERE level = 0 AND embedding IS NOT NULL \
               GROUP BY 1 ORDER BY partition COLLATE \"C\"";
    let partitions: Vec<(String, i64)> = collection.query(sql, &[], |row| Ok((row.need(1)?, row.need(2)?)))?;
    for (_, leaves) in &partitions {
        memory::check(
            bytes_needed(*leaves as usize, collection.options.dimensions, options.cluster_size)
                + *leaves as usize * BYTES_PER_LEAF,
            "the tree of this collection",
        )?;
    }
    collection.execute("DELETE FROM {s}.node WHERE level > 0", &[])?;
    for (partition, leaves) in &partitions {
        build_partition(&collection, partition, *leaves as usize, &options)?;
    }
    search::ensure_index(&collection, "node")?;
    collection.analyze(&["node", "node_child", "node_source"])?;
    collection.note_step("tree", Some(collection.summarizer().name()))?;
    // The built-in summariser makes no call.
    let sql = "SELECT level, count(*), 0::bigint FROM {s}.node GROUP BY 1 ORDER BY 1";
    collection.query(sql, &[], |row| Ok((row.need(1)?, row.need(2)?, row.need(3)?)))
}

/// Writes the nodes of one partition's tree, level by level.
struct Writer<'a> {
    collection: &'a Collection,
    partition: &'a str,
    /// Node ids, by the tree's own numbers.
    ids: Vec<i64>,
    /// Documents under each node, sorted, by the tree's own numbers.
    documents: Vec<Vec<i64>>,
    progress: Progress,
}

fn build_partition(collection: &Collection, partition: &str, leaves: usize, options: &Options) -> Result<()> {
    let dimensions = collection.options.dimensions;
    let mut writer = Writer {
        collection,
        partition,
        ids: Vec::new(),
        documents: Vec::new(),
        progress: Progress::start(),
    };
    let mut data = Vec::new();
    memory::reserve(&mut data, leaves * dimensions)?;
    let sql = "SELECT n.id, n.document_id, n.embedding FROM {s}.node n JOIN {s}.document d ON d.id = n.document_id \
               WHERE n.level = 0 AND n.embedding IS NOT NULL AND n.partition = $1 \
               ORDER BY d.body_hash, d.source_key COLLATE \"C\", n.ordinal, n.id";
    collection.stream(sql, &[partition.into()], |row| {
        writer.ids.push(row.need(1)?);
        writer.documents.push(vec![row.need(2)?]);
        data.extend_from_slice(&row.need::<vector::Vector>(3)?.0);
        Ok(())
    })?;
    let leaves = Vectors::new(dimensions, data, &mut tick).map_err(|e| Error::internal(e.to_string()))?;
    let count = leaves.len();
    let mut grouping = Progress::start();
    let mut tick = || {
        tick();
        grouping.say(|| format!("grouping {count} leaves"));
    };
    match build(leaves, options, &mut writer, &mut tick) {
        Ok(_) => Ok(()),
        Err(BuildError::Summarize(error)) => Err(error),
        Err(error) => Err(Error::internal(error.to_string())),
    }
}

impl Summarize for Writer<'_> {
    type Error = Error;

    fn summarize(&mut self, level: u32, clusters: &[Vec<u32>]) -> Result<Vec<Option<Vec<f32>>>> {
        let mut embeddings = Vec::with_capacity(clusters.len());
        for part in clusters.chunks(200) {
            embeddings.extend(self.write(level, part)?);
            self.progress.say(|| {
                format!(
                    "level {level}: {} of {} summaries written",
                    embeddings.len(),
                    clusters.len()
                )
            });
            tick();
        }
        Ok(embeddings)
    }
}

impl Writer<'_> {
    fn write(&mut self, level: u32, clusters: &[Vec<u32>]) -> Result<Vec<Option<Vec<f32>>>> {
        let collection = self.collection;
        let count = clusters.len();
        let sql = "SELECT nextval(pg_get_serial_sequence($1, 'id')) FROM generate_series(1, $2)";
        let table = format!("{}.node", collection.schema);
        let ids: Vec<i64> = collection.returning(sql, &[table.into(), (count as i32).into()], |row| row.need(1))?;

        let (mut parents, mut children) = (Vec::new(), Vec::new());
        let (mut sources, mut source_of) = (Vec::new(), Vec::new());
        for (id, cluster) in ids.iter().zip(clusters) {
            parents.extend(std::iter::repeat_n(*id, cluster.len()));
            children.extend(cluster.iter().map(|&child| self.ids[child as usize]));
            let mut documents: Vec<i64> = cluster
                .iter()
                .flat_map(|&child| self.documents[child as usize].iter().copied())
                .collect();
            documents.sort_unstable();
            documents.dedup();
            source_of.extend(std::iter::repeat_n(*id, documents.len()));
            sources.extend_from_slice(&documents);
            self.documents.push(documents);
        }
        let texts = self.texts(&children)?;
        let (mut written, mut hashes, mut tokens_of, mut vectors) = (vec![], vec![], vec![], vec![]);
        let mut rest = &texts[..];
        for cluster in clusters {
            let (own, others) = rest.split_at(cluster.len());
            rest = others;
            let own: Vec<&str> = own.iter().map(String::as_str).collect();
            let text = collection.summarizer().summarize(
                &own,
                collection.options.summary_tokens as usize,
                collection.options.stop_words(),
            );
            vectors.push(collection.embedder().embed(&text));
            hashes.push(Sha256::digest(&text).to_vec());
            tokens_of.push(tokens::count(&text) as i32);
            written.push(text);
        }
        let counts: Vec<i32> = self.documents[self.documents.len() - count..]
            .iter()
            .map(|d| d.len() as i32)
            .collect();
        // What all children share is what all documents below share.
        let sql = "WITH pair AS (SELECT u.parent, e.key, e.value, count(*) AS having \
                     FROM unnest($1::bigint[], $2::bigint[]) AS u (parent, child) JOIN {s}.node n ON n.id = u.child, \
                          jsonb_each(n.metadata) e GROUP BY 1, 2, 3), \
                   size AS (SELECT parent, count(*) AS children FROM unnest($1) AS u (parent) GROUP BY 1), \
                   shared AS (SELECT p.parent, jsonb_object_agg(p.key, p.value) AS pairs FROM pair p JOIN size USING (parent) \
                     WHERE p.having = size.children GROUP BY 1) \
                   INSERT INTO {s}.node (id, level, partition, text, text_hash, token_count, metadata, embedding, source_count) \
                   SELECT u.id, $8, $9, u.text, u.text_hash, u.token_count, coalesce(s.pairs, '{}'), u.embedding, u.source_count \
                   FROM unnest($3::bigint[], $4::text[], $5::bytea[], $6::int[], $7::{v}.vector[], $10::int[]) \
                        AS u (id, text, text_hash, token_count, embedding, source_count) \
                   LEFT JOIN shared s ON s.parent = u.id ORDER BY u.id";
        collection.execute(
            sql,
            &[
                parents.clone().into(),
                children.clone().into(),
                ids.clone().into(),
                written.into(),
                hashes.into(),
                tokens_of.into(),
                vector::Vectors(vectors.iter().map(Option::as_deref).collect()).into(),
                (level as i32).into(),
                self.partition.into(),
                counts.into(),
            ],
        )?;
        let sql = "INSERT INTO {s}.node_child (parent_id, child_id) SELECT * FROM unnest($1::bigint[], $2::bigint[])";
        collection.execute(sql, &[parents.into(), children.into()])?;
        let sql = "INSERT INTO {s}.node_source (node_id, document_id) SELECT * FROM unnest($1::bigint[], $2::bigint[])";
        collection.execute(sql, &[source_of.into(), sources.into()])?;
        self.ids.extend(ids);
        Ok(vectors)
    }

    /// The texts of nodes, in the order asked.
    fn texts(&self, ids: &[i64]) -> Result<Vec<String>> {
        let sql = "SELECT n.text FROM unnest($1::bigint[]) WITH ORDINALITY AS u (id, n) JOIN {s}.node n ON n.id = u.id ORDER BY u.n";
        self.collection.query(sql, &[ids.to_vec().into()], |row| row.need(1))
    }
}
