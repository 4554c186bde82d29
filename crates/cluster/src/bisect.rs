//! Bisecting spherical 2-means: groups that a summarizer can read, in time near linear in their number.

use crate::cells::cells;
use crate::groups::Groups;
use crate::halve::{Scratch, cut_up};
use crate::limits::{Cluster, Limits, Member};
use crate::vectors::Vectors;
use graphrag_linear::Crew;

/// Groups all rows softly into clusters within `limits`, by closeness of direction.
///
/// Parts that are over the limits are cut in two by spherical 2-means, from several starts, of which the one counts whose sums of members are longest;
/// more than a few thousand rows are first divided into cells by k-means on a sample. Rows then move to the nearest centre that has room.
/// A row that stands between clusters joins up to two more, where the limits leave room: see [`Groups::soften`] for the rule.
///
/// `sizes` has the tokens of each row; see [`Limits::counted`]. Every row is in at least one cluster, all clusters are within the limits,
/// at most two have a single member, and the others two or more of their own. Rows without a direction make clusters of their own, in row order.
/// Clusters are in the order of their first rows. The result depends on the rows, their order and `seed`, not on the threads of `crew`.
///
/// Source: Steinbach, Karypis and Kumar (2000) for bisecting k-means, Dhillon and Modha (2001) for the spherical form.
pub fn bisect(
    vectors: &Vectors,
    sizes: &[u32],
    limits: &Limits,
    seed: u64,
    crew: &Crew,
    tick: &mut dyn FnMut(),
) -> Vec<Cluster> {
    let (directed, undirected): (Vec<u32>, Vec<u32>) =
        (0..vectors.len() as u32).partition(|&row| vectors.has_direction(row));
    let cells = cells(vectors, directed, seed, crew, tick);
    let mut parts: Vec<Vec<Vec<u32>>> = vec![vec![]; cells.len()];
    crew.share(
        tick,
        cells.into_iter().zip(&mut parts),
        Scratch::default,
        |scratch, (cell, parts), pace| {
            *parts = cut_up(vectors, sizes, limits, seed, cell, scratch, pace)?;
            Ok(())
        },
    );
    let mut groups = Groups::new(vectors, sizes, limits, parts, crew, tick);
    groups.refine(crew, tick);
    let near = groups.near(crew, tick);
    groups.settle(&near, tick);
    let mut clusters = groups.soften(&near, crew, tick);
    clusters.extend(in_order(&undirected, sizes, limits));
    clusters.sort_unstable_by(|a, b| a.iter().map(|m| m.row).cmp(b.iter().map(|m| m.row)));
    clusters
}

/// Clusters of rows one after another, as many as the limits allow.
fn in_order(rows: &[u32], sizes: &[u32], limits: &Limits) -> Vec<Cluster> {
    let (mut clusters, mut tokens) = (Vec::<Cluster>::new(), 0);
    for &row in rows {
        let size = limits.counted(sizes[row as usize]);
        match clusters.last_mut() {
            Some(last) if limits.hold(last.len() + 1, tokens + size) => last.push(Member { row, weight: 1.0 }),
            _ => {
                tokens = 0;
                clusters.push(vec![Member { row, weight: 1.0 }]);
            }
        }
        tokens += size;
    }
    clusters
}
