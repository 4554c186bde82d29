//! Times the community algorithms on a file of edges, for bench/communities.py: a line `node node weight` for each edge, nodes from 0.
//!
//! `communities FILE NODES METHOD SEED RUNS LABELS`, METHOD being leiden, hierarchy, potts=RESOLUTION or label_propagation; each run has a
//! seed of its own, from SEED on. Prints the CPU seconds of making the graph and of each run, the greatest memory beyond that before the
//! runs, in KB, and the levels and communities of the last hierarchy; writes the labels of each run, of the coarsest level, as a line.

use graphrag_network::{Graph, Objective, hierarchy, label_propagation, labels_at, leiden};

/// The CPU seconds of this process, of which there is one thread.
fn clock() -> f64 {
    // What has run is counted up when it stops running.
    std::thread::sleep(std::time::Duration::from_micros(1));
    let text = std::fs::read_to_string("/proc/self/schedstat").expect("schedstat");
    let nanoseconds = text.split(' ').next().and_then(|word| word.parse::<f64>().ok());
    nanoseconds.expect("a number") / 1e9
}

/// A line of /proc/self/status, in KB.
fn memory(name: &str) -> i64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("status");
    let line = text.lines().find(|line| line.starts_with(name)).expect("the line");
    let number = line.split_ascii_whitespace().nth(1);
    number.and_then(|word| word.parse().ok()).expect("a number")
}

fn read(file: &str) -> Vec<(u32, u32, f32)> {
    let text = std::fs::read_to_string(file).expect("a file");
    let edge = |line: &str| {
        let mut parts = line.split_ascii_whitespace();
        let mut next = || parts.next().expect("three numbers a line");
        (
            next().parse().expect("a node"),
            next().parse().expect("a node"),
            next().parse().expect("a weight"),
        )
    };
    text.lines().map(edge).collect()
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [file, nodes, method, seed, runs, path] = &args[..] else {
        eprintln!("usage: communities FILE NODES METHOD SEED RUNS LABELS");
        std::process::exit(2);
    };
    let (nodes, seed, runs) = (
        nodes.parse::<u32>().expect("a number of nodes"),
        seed.parse::<u64>().expect("a seed"),
        runs.parse::<u64>().expect("a number of runs"),
    );
    let edges = read(file);
    let started = clock();
    let graph = Graph::new(nodes, &edges, &mut || ()).expect("a graph");
    let made = clock() - started;
    drop(edges);
    // The peak starts anew.
    std::fs::write("/proc/self/clear_refs", "5").expect("clear_refs");
    let before = memory("VmRSS");
    let newman = Objective::Modularity { resolution: 1.0 };
    let mut times = Vec::new();
    let mut lines = String::new();
    let (mut levels, mut all, mut peak) = (1, 0, before);
    for seed in seed..seed + runs {
        let started = clock();
        let mut found = Vec::new();
        let mut labels = match method.split_once('=') {
            None if method == "leiden" || method == "hierarchy" => leiden(&graph, newman, seed, None, &mut || ()),
            None if method == "label_propagation" => label_propagation(&graph, seed, &mut || ()),
            Some(("potts", resolution)) => {
                let resolution = resolution.parse().expect("a resolution");
                leiden(&graph, Objective::Potts { resolution }, seed, None, &mut || ())
            }
            _ => panic!("unknown method {method}"),
        };
        if method == "hierarchy" {
            found = hierarchy(&graph, &labels, newman, 10, seed, None, &mut || ());
        }
        times.push(format!("{:.6}", clock() - started));
        peak = peak.max(memory("VmHWM"));
        if method == "hierarchy" {
            levels = found.iter().map(|community| community.level).max().unwrap_or(0) + 1;
            all = found.len();
            labels = labels_at(&found, 0, nodes);
        }
        let words: Vec<String> = labels.iter().map(u32::to_string).collect();
        lines += &(words.join(" ") + "\n");
    }
    std::fs::write(path, lines).expect("labels are written");
    println!(
        "{{\"made\": {made:.6}, \"times\": [{}], \"memory\": {}, \"levels\": {levels}, \"all\": {all}}}",
        times.join(", "),
        peak - before
    );
}
