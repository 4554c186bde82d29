use super::*;
use std::num::NonZero;
use std::time::Instant;

fn crew(threads: usize) -> Crew {
    Crew {
        threads: NonZero::new(threads).unwrap(),
        spawning: |spawn| spawn(),
    }
}

/// Numbers that are about normal, the same for the same seed.
struct Normal(u64);

impl Normal {
    fn next(&mut self) -> f32 {
        let sum: u64 = (0..12)
            .map(|_| {
                self.0 = splitmix64(self.0);
                self.0 >> 40
            })
            .sum();
        sum as f32 / (1u32 << 24) as f32 - 6.0
    }

    fn vector(&mut self, dim: usize) -> Vec<f32> {
        let scale = 1.0 / (dim as f32).sqrt();
        (0..dim).map(|_| self.next() * scale).collect()
    }
}

/// Rows about topics (row i about topic i % topics), in fields of about `per_field` topics.
fn planted(n: usize, dim: usize, topics: usize, per_field: usize, noise: f32, seed: u64) -> Vectors {
    let mut normal = Normal(seed);
    let fields: Vec<Vec<f32>> = (0..topics.div_ceil(per_field)).map(|_| normal.vector(dim)).collect();
    let centres: Vec<Vec<f32>> = (0..topics)
        .map(|t| {
            let own = normal.vector(dim);
            let field = &fields[t / per_field];
            field.iter().zip(&own).map(|(x, y)| x + 0.8 * y).collect()
        })
        .collect();
    let mut data = Vec::with_capacity(n * dim);
    for i in 0..n {
        let own = normal.vector(dim);
        let topic = i % topics;
        let other = if i % 10 == 0 { (topic / per_field * per_field + i / 10 % per_field) % topics } else { topic };
        let between = centres[topic].iter().zip(&centres[other]).map(|(x, y)| (x + y) / 2.0);
        data.extend(between.zip(&own).map(|(x, y)| x + noise * y));
    }
    Vectors::new(dim, data, &mut || ()).unwrap()
}

#[test]
#[ignore = "measures"]
fn times() {
    let get = |name: &str, other: f64| std::env::var(name).map_or(other, |x| x.parse().unwrap());
    let n = get("N", 1000.0) as usize;
    let noise = get("NOISE", 1.0) as f32;
    let topics = n / 60;
    let vectors = planted(n, 384, topics, 6, noise, 7);
    let limits = Limits { tokens: get("TOKENS", 3500.0) as u32, members: 1000 };
    let start = Instant::now();
    let clusters = mixture(&vectors, &vec![100; n], &limits, 1, &crew(get("THREADS", 1.0) as usize), &mut || ());
    let took = start.elapsed();
    let members: usize = clusters.iter().map(Vec::len).sum();
    let mut pure = 0;
    for cluster in &clusters {
        let mut counts = vec![0; topics];
        cluster.iter().for_each(|m| counts[m.row as usize % topics] += 1);
        pure += counts.iter().max().unwrap();
    }
    let (mut both, mut bridges) = (0, 0);
    let mut homes = vec![vec![]; n];
    let mut tops = vec![0; clusters.len()];
    for (c, cluster) in clusters.iter().enumerate() {
        let mut counts = vec![0; topics];
        cluster.iter().for_each(|m| counts[m.row as usize % topics] += 1);
        tops[c] = (0..topics).max_by_key(|&t| counts[t]).unwrap();
        cluster.iter().for_each(|m| homes[m.row as usize].push(c));
    }
    for i in (0..n).step_by(10) {
        let topic = i % topics;
        let other = (topic / 6 * 6 + i / 10 % 6) % topics;
        if other != topic {
            bridges += 1;
            both += usize::from(homes[i].iter().any(|&c| tops[c] == topic) && homes[i].iter().any(|&c| tops[c] == other));
        }
    }
    println!("both {both} of {bridges}; sizes {:?}", { let mut s: Vec<usize> = clusters.iter().map(Vec::len).collect(); s.sort(); (s[0], s[s.len()/4], s[s.len()/2]) });
    println!(
        "n {n} noise {noise}: {took:?}, {} clusters, multiplicity {:.3}, purity {:.4}, most {}",
        clusters.len(),
        members as f64 / n as f64,
        pure as f64 / members as f64,
        clusters.iter().map(Vec::len).max().unwrap()
    );
}
