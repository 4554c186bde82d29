//! Clusters the vectors of a file and says what it took; bench/clustering.py calls it.
//!
//! `cargo run --release -p graphrag-cluster --example cluster -- METHOD FILE DIM TOKENS LIMIT SEED THREADS`
//!
//! FILE has the vectors as f32, little-endian, row after row of DIM values. TOKENS is the size of each row, or a file with that of each as u32.
//! Each membership is a line on the standard output: cluster, row, weight. On the standard error is one line of JSON: seconds, seconds of work of
//! all threads, clusters, and megabytes held at most beyond what was held when the vectors had been read.

use graphrag_cluster::{Cluster, Limits, Member, Vectors, bisect, greedy, mixture};
use graphrag_linear::Crew;
use std::error::Error;
use std::fs::{File, read, read_to_string};
use std::io::{BufReader, BufWriter, Read, Write, stdout};
use std::num::NonZero;
use std::path::Path;
use std::process::exit;
use std::thread::sleep;
use std::time::{Duration, Instant};

const USAGE: &str = "usage: cluster bisect|mixture|greedy FILE DIM TOKENS LIMIT SEED THREADS";

/// The values of a file, read in pieces, so that it is never held twice: that would hide what clustering holds.
fn values(path: &str) -> Result<Vec<f32>, Box<dyn Error>> {
    let file = File::open(path)?;
    let count = usize::try_from(file.metadata()?.len())? / 4;
    let mut reader = BufReader::new(file);
    let mut data = Vec::with_capacity(count);
    let mut bytes = [0; 4];
    for _ in 0..count {
        reader.read_exact(&mut bytes)?;
        data.push(f32::from_le_bytes(bytes));
    }
    Ok(data)
}

fn sizes(tokens: &str, rows: usize) -> Result<Vec<u32>, Box<dyn Error>> {
    if let Ok(tokens) = tokens.parse() {
        return Ok(vec![tokens; rows]);
    }
    let bytes = read(Path::new(tokens))?;
    let (sizes, rest) = bytes.as_chunks();
    if sizes.len() != rows || !rest.is_empty() {
        return Err(format!("{tokens} does not have {rows} sizes").into());
    }
    Ok(sizes.iter().map(|&size| u32::from_le_bytes(size)).collect())
}

/// Seconds of work of all threads of this process.
fn cpu_seconds(threads: usize) -> f64 {
    // The kernel adds up what a thread has worked when it pauses, or a few milliseconds later.
    sleep(Duration::from_millis(1));
    if threads == 1
        && let Ok(stat) = read_to_string("/proc/self/schedstat")
        && let Some(Ok(nanoseconds)) = stat.split_whitespace().next().map(str::parse::<f64>)
        && nanoseconds > 0.0
    {
        return nanoseconds / 1e9;
    }
    // Counts all threads, also those that have ended, but only in hundredths of a second.
    let stat = read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks = after_name.split_whitespace().skip(11).take(2);
    ticks.filter_map(|x| x.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// Megabytes held at most so far.
fn peak() -> f64 {
    let status = read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kilobytes.unwrap_or_default() / 1024.0
}

fn run(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let [method, file, dim, tokens, limit, seed, threads] = arguments else {
        return Err(USAGE.into());
    };
    let (seed, limit) = (seed.parse()?, limit.parse()?);
    let crew = Crew {
        threads: threads.parse::<NonZero<usize>>()?,
        spawning: |spawn| spawn(),
    };
    let vectors = Vectors::new(dim.parse()?, values(file)?, &mut || ())?;
    let sizes = sizes(tokens, vectors.len())?;
    let limits = Limits {
        tokens: limit,
        members: usize::MAX,
    };
    let (held, worked, begin) = (peak(), cpu_seconds(crew.threads.get()), Instant::now());
    let clusters: Vec<Cluster> = match method.as_str() {
        "bisect" => bisect(&vectors, &sizes, &limits, seed, &crew, &mut || ()),
        "mixture" => mixture(&vectors, &sizes, &limits, seed, &crew, &mut || ()),
        "greedy" => {
            // It knows no limit, only a number of rows: as many as the limit holds on average.
            let mean = sizes.iter().map(|&size| u64::from(size)).sum::<u64>() / (vectors.len() as u64).max(1);
            let clusters = greedy(&vectors, (u64::from(limit) / mean.max(1)).max(2) as usize, &mut || ());
            let hard = |row| Member { row, weight: 1.0 };
            clusters
                .into_iter()
                .map(|rows| rows.into_iter().map(hard).collect())
                .collect()
        }
        _ => return Err(USAGE.into()),
    };
    let wall = begin.elapsed().as_secs_f64();
    let (cpu, extra) = (cpu_seconds(crew.threads.get()) - worked, peak() - held);
    eprintln!(
        r#"{{"wall": {wall:.6}, "cpu": {cpu:.6}, "clusters": {}, "extra": {extra:.1}}}"#,
        clusters.len()
    );
    let mut out = BufWriter::new(stdout().lock());
    for (cluster, members) in clusters.iter().enumerate() {
        for member in members {
            writeln!(out, "{cluster} {} {}", member.row, member.weight)?;
        }
    }
    Ok(out.flush()?)
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Err(error) = run(&arguments) {
        eprintln!("{error}");
        exit(1);
    }
}
