//! The ranking of leaves by BM25.

use graphrag_rank::bm25::Corpus;

use super::lexemes::Lexemes;
use super::posting::quote;
use crate::collection::Collection;
use crate::error::Result;
use crate::pg::tsvector::TsVector;
use crate::pg::{memory, spi, tick};
use crate::search::{Scope, in_order};

/// About as many leaves are looked at before it is asked whether others can still be better.
const ROUND: i64 = 2_000;
/// Terms of one tsquery, which holds a megabyte at most.
const TERMS: usize = 500;

/// The terms of a query, in the bytewise order of their names: in this order gains are summed, so that a score is the same
/// number however it was found.
struct Terms {
    names: Vec<String>,
    idf: Vec<f64>,
}

/// A leaf with the terms of the query that it holds, by their places, and how often.
struct Leaf {
    id: i64,
    length: u32,
    counts: Vec<(u32, u32)>,
}

impl Leaf {
    fn score(&self, terms: &Terms, corpus: &Corpus) -> f64 {
        let gain = |&(term, count): &(u32, u32)| corpus.gain(terms.idf[term as usize], count, self.length);
        self.counts.iter().map(gain).sum()
    }
}

/// The best `k` leaves in scope by BM25, of those that hold a term of the query: (id, score), best first, ties in canonical order.
/// A term that the query holds twice counts once.
///
/// How many leaves there are, how many hold a term, and their mean length are those of the leaves in scope: no score tells of
/// others.
pub fn rank(collection: &Collection, query: &str, k: i64, scope: &Scope) -> Result<Vec<(i64, f64)>> {
    let mut lexemes = Lexemes::default();
    let row = lexemes.rows(collection, &[query])?.pop().unwrap_or_default();
    if row.is_empty() || k == 0 {
        return Ok(Vec::new());
    }
    let names: Vec<String> = row.iter().map(|term| lexemes.name(term.0).to_owned()).collect();
    let terms = Terms { names, idf: Vec::new() };
    let found = match scope.is_everything() && !collection.hides_nodes()? {
        true => of_all(collection, terms, k)?,
        false => of_scope(collection, terms, k, scope)?,
    };
    let (ids, scores): (Vec<i64>, Vec<f64>) = found.into_iter().unzip();
    let sql = in_order(
        "node",
        "SELECT u.id, u.score FROM unnest($1::bigint[], $2::float8[]) AS u (id, score) WHERE $3::int IS NULL",
    );
    let args = [ids.into(), scores.into(), None::<i32>.into(), k.into()];
    collection.query(&sql, &args, |row| Ok((row.need(1)?, row.need(2)?)))
}

/// Of all leaves, the rarest terms first: where the commoner ones cannot lift a leaf that holds no other among the best `k`, those
/// that hold them alone are not looked at (MaxScore, Turtle and Flood 1995).
fn of_all(collection: &Collection, mut terms: Terms, k: i64) -> Result<Vec<(i64, f64)>> {
    let sql = "SELECT count(*), coalesce(sum(p.length), 0)::bigint FROM {s}.posting p";
    let corpus = collection.query_one(sql, &[], |row| {
        Ok(Corpus {
            texts: row.need::<i64>(1)? as u64,
            length: row.need::<i64>(2)?.max(0) as u64,
        })
    })?;
    let sql = "SELECT (SELECT count(*) FROM {s}.posting p WHERE p.lexemes @@ u.term::tsquery) \
               FROM unnest($1::text[]) WITH ORDINALITY AS u (term, n) ORDER BY u.n";
    let each: Vec<String> = (0..terms.names.len()).map(|term| any_of(&terms, &[term])).collect();
    let holding: Vec<i64> = collection.query(sql, &[each.into()], |row| row.need(1))?;
    terms.idf = holding.iter().map(|leaves| corpus.idf(*leaves as u64)).collect();
    let mut rarest: Vec<usize> = (0..holding.len()).filter(|&term| holding[term] > 0).collect();
    rarest.sort_by_key(|&term| holding[term]);
    let mut place = vec![0; holding.len()];
    rarest.iter().enumerate().for_each(|(at, &term)| place[term] = at);

    let mut found: Vec<(i64, f64)> = Vec::new();
    let mut at = 0;
    while at < rarest.len() {
        let rest: f64 = rarest[at..].iter().map(|&term| Corpus::bound(terms.idf[term])).sum();
        // The sums differ in their last digits.
        if found.len() as i64 >= k && found[k as usize - 1].1 > rest * (1.0 + 1e-9) {
            break;
        }
        let (mut end, mut leaves) = (at, 0);
        while end < rarest.len() && end - at < TERMS && (end == at || leaves + holding[rarest[end]] <= ROUND) {
            leaves += holding[rarest[end]];
            end += 1;
        }
        let sql = "SELECT p.node_id, p.length, p.lexemes FROM {s}.posting p WHERE p.lexemes @@ $1::tsquery";
        let query = any_of(&terms, &rarest[at..end]);
        collection.stream(sql, &[query.into()], |row| {
            let leaf = read(row, &terms)?;
            // Those that hold a rarer term have been looked at.
            if leaf.counts.iter().all(|&(term, _)| place[term as usize] >= at) {
                found.push((leaf.id, leaf.score(&terms, &corpus)));
            }
            Ok(())
        })?;
        keep_best(&mut found, k);
        memory::check(size_of_val(found.as_slice()), "the result of this search")?;
        at = end;
    }
    Ok(found)
}

/// Of the leaves in scope, all of which are read in one pass and counted: the index knows nothing of the scope.
fn of_scope(collection: &Collection, mut terms: Terms, k: i64, scope: &Scope) -> Result<Vec<(i64, f64)>> {
    let all: Vec<usize> = (0..terms.names.len()).collect();
    // Lexemes are handed over where they are of use.
    let (query, lexemes) = match all.len() <= TERMS {
        true => (
            any_of(&terms, &all),
            "CASE WHEN p.lexemes @@ $1::tsquery THEN p.lexemes END",
        ),
        false => (String::new(), "p.lexemes"),
    };
    let sql = format!(
        "SELECT p.node_id, p.length, {lexemes} FROM {{s}}.posting p JOIN {{s}}.node n ON n.id = p.node_id \
         WHERE ($1::text IS NULL OR $2::jsonb IS NULL OR $3::bigint[] IS NULL OR true) AND {}",
        scope.on_row("node")
    );
    let mut corpus = Corpus::default();
    let mut holding = vec![0; terms.names.len()];
    let mut leaves: Vec<Leaf> = Vec::new();
    let mut bytes = 0;
    collection.stream(&sql, &[query.into(), scope.filter(), scope.documents()], |row| {
        let leaf = read(row, &terms)?;
        corpus.texts += 1;
        corpus.length += u64::from(leaf.length);
        if !leaf.counts.is_empty() {
            leaf.counts.iter().for_each(|count| holding[count.0 as usize] += 1);
            bytes += size_of::<Leaf>() + size_of_val(leaf.counts.as_slice());
            leaves.push(leaf);
        }
        if corpus.texts.is_multiple_of(1_000) {
            memory::check(bytes, "the result of this search")?;
        }
        Ok(())
    })?;
    terms.idf = holding.into_iter().map(|leaves| corpus.idf(leaves)).collect();
    let mut found: Vec<(i64, f64)> = leaves
        .iter()
        .map(|leaf| (leaf.id, leaf.score(&terms, &corpus)))
        .collect();
    keep_best(&mut found, k);
    Ok(found)
}

/// Whether a leaf holds one of some terms.
pub fn holds_any(collection: &Collection, terms: &[String]) -> Result<bool> {
    if terms.is_empty() {
        return Ok(false);
    }
    let queries: Vec<String> = terms
        .iter()
        .map(|term| {
            let mut query = String::new();
            quote(term, &mut query);
            query
        })
        .collect();
    let sql = "SELECT EXISTS (SELECT FROM unnest($1::text[]) AS u (term) \
                 WHERE EXISTS (SELECT FROM {s}.posting p WHERE p.lexemes @@ u.term::tsquery))";
    collection.query_one(sql, &[queries.into()], |row| row.need(1))
}

/// A tsquery for leaves that hold one of some terms.
fn any_of(terms: &Terms, some: &[usize]) -> String {
    let mut query = String::new();
    for &term in some {
        if !query.is_empty() {
            query.push('|');
        }
        quote(&terms.names[term], &mut query);
    }
    query
}

fn read(row: &spi::Row, terms: &Terms) -> Result<Leaf> {
    tick();
    let lexemes: Option<TsVector> = row.get(3)?;
    let counts = lexemes.iter().flat_map(|lexemes| {
        terms.names.iter().enumerate().filter_map(|(term, name)| {
            let count = lexemes.position(name.as_bytes())?;
            Some((term as u32, u32::from(count)))
        })
    });
    Ok(Leaf {
        id: row.need(1)?,
        length: row.need::<i32>(2)?.max(0) as u32,
        counts: counts.collect(),
    })
}

/// Keeps the best `k`, best first, and those behind them that are as good as the last.
fn keep_best(found: &mut Vec<(i64, f64)>, k: i64) {
    found.sort_unstable_by(|a, b| b.1.total_cmp(&a.1));
    if let Some(last) = usize::try_from(k - 1).ok().and_then(|place| found.get(place)) {
        let least = last.1;
        found.truncate(found.partition_point(|leaf| leaf.1 >= least));
    }
}
