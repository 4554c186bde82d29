//! `builtin:frequency` for the clusters of a tree: the sentences that lie near to what a cluster means are preferred, where the
//! collection has learned what its words mean.

use graphrag_text::summary::Draft;

use super::lsa::Space;
use crate::collection::Collection;
use crate::error::Result;
use crate::pg::{memory, tick};

/// Texts that are taken apart at once, and their bytes, unless one cluster has more.
const TEXTS: usize = 1_000;
const TEXT_BYTES: usize = 1 << 20;
/// Bytes of the vectors of sentences that are in memory at once.
const VECTOR_BYTES: usize = 8 << 20;

/// A text of at most `summary_tokens` for each of the clusters, which are the texts of their members.
///
/// The summary of a cluster depends on its texts and on what the collection has learned, not on the clusters beside it.
pub fn summarize(collection: &Collection, clusters: &[&[&str]]) -> Result<Vec<String>> {
    let mut space = match collection.options.embedder.lsa() {
        Some(part) if !clusters.is_empty() => Some(Space::open(collection, part.dimensions)?),
        _ => None,
    };
    space = space.filter(|space| space.has_learned);
    let mut summaries = Vec::with_capacity(clusters.len());
    let mut rest = clusters;
    while !rest.is_empty() {
        let (part, others) = rest.split_at(fitting(rest));
        rest = others;
        summaries.extend(write(collection, space.as_mut(), part)?);
    }
    Ok(summaries)
}

/// How many of the clusters, at least one, are written at once.
fn fitting(clusters: &[&[&str]]) -> usize {
    let (mut texts, mut bytes) = (0, 0);
    let more = |cluster: &&&[&str]| {
        texts += cluster.len();
        bytes += cluster.iter().map(|text| text.len()).sum::<usize>();
        texts <= TEXTS && bytes <= TEXT_BYTES
    };
    clusters.iter().take_while(more).count().max(1)
}

fn write(collection: &Collection, space: Option<&mut Space>, clusters: &[&[&str]]) -> Result<Vec<String>> {
    let options = &collection.options;
    let drafts: Vec<Draft> = clusters
        .iter()
        .map(|texts| Draft::read(texts, options.stop_words(), &mut tick))
        .collect();
    let mut near = match space {
        Some(space) => closeness(collection, space, clusters, &drafts)?,
        None => Vec::new(),
    }
    .into_iter();
    let summaries = drafts.iter().map(|draft| {
        let near: Vec<f64> = near.by_ref().take(draft.sentences().count()).collect();
        let near = |at: usize| near.get(at).copied().unwrap_or_default();
        draft.write(options.summary_tokens as usize, near, &mut tick)
    });
    Ok(summaries.collect())
}

/// How near each sentence of the drafts is to what its cluster means: the mean of its cosines with its text and with the centre,
/// the unit sum of the texts' vectors. The centre alone would choose what is common to all, by which none of them is found.
fn closeness(collection: &Collection, space: &mut Space, clusters: &[&[&str]], drafts: &[Draft]) -> Result<Vec<f64>> {
    let texts = clusters.concat();
    let vectors = space.embed(collection, &texts)?;
    // What a sentence is multiplied with: half its text, half the centre.
    let mut aims: Vec<Vec<f32>> = Vec::new();
    memory::reserve(&mut aims, texts.len())?;
    let mut rest = &vectors[..];
    for cluster in clusters {
        tick();
        let (own, others) = rest.split_at(cluster.len());
        rest = others;
        let centre = centre(own, space.dimensions);
        let aim = |own: &Option<Vec<f32>>| match own {
            Some(own) => own.iter().zip(&centre).map(|(a, b)| 0.5 * (a + b)).collect(),
            None => centre.iter().map(|x| 0.5 * x).collect(),
        };
        aims.extend(own.iter().map(aim));
    }
    let mut start = 0;
    let mut sentences: Vec<(usize, &str)> = Vec::new();
    for (draft, cluster) in drafts.iter().zip(clusters) {
        sentences.extend(draft.sentences().map(|(of, text)| (start + of, text)));
        start += cluster.len();
    }
    let mut near = Vec::with_capacity(sentences.len());
    for part in sentences.chunks((VECTOR_BYTES / (4 * space.dimensions)).max(1)) {
        let list: Vec<&str> = part.iter().map(|(_, text)| *text).collect();
        let vectors = space.embed(collection, &list)?;
        near.extend(part.iter().zip(vectors).map(|((of, _), vector)| {
            tick();
            vector.map_or(0.0, |vector| dot(&vector, &aims[*of]))
        }));
    }
    Ok(near)
}

/// The unit sum of vectors; zero if it has no direction.
fn centre(vectors: &[Option<Vec<f32>>], dimensions: usize) -> Vec<f32> {
    let mut sum = vec![0.0; dimensions];
    for vector in vectors.iter().flatten() {
        for (sum, x) in sum.iter_mut().zip(vector) {
            *sum += x;
        }
    }
    crate::pg::vector::unit(&sum).unwrap_or(sum)
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}
