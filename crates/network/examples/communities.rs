//! Times the community algorithms on a file of edges, for bench/communities.py: a line `node node weight` for each edge, nodes from 0.
//!
//! `communities FILE NODES METHOD SEED RUNS [LABELS]`, METHOD being leiden, hierarchy, potts=RESOLUTION or label_propagation. Prints the CPU seconds of reading, of
//! making the graph, and of the median and fastest run; the number of communities, the levels, and the modularity of the coarsest; then writes its labels.

use graphrag_network::{Graph, Objective, hierarchy, label_propagation, labels_at, leiden, modularity};

/// The CPU seconds of this process, of which there is one thread.
fn clock() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").expect("schedstat");
    let nanoseconds = text.split(' ').next().and_then(|word| word.parse::<f64>().ok());
    nanoseconds.expect("a number") / 1e9
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [file, nodes, method, seed, runs, rest @ ..] = &args[..] else {
        eprintln!("usage: communities FILE NODES METHOD SEED RUNS [LABELS]");
        std::process::exit(2);
    };
    let (nodes, seed, runs) = (
        nodes.parse::<u32>().expect("a number of nodes"),
        seed.parse().expect("a seed"),
        runs.parse::<usize>().expect("a number of runs"),
    );
    let started = clock();
    let text = std::fs::read_to_string(file).expect("a file");
    let edges: Vec<(u32, u32, f32)> = text
        .lines()
        .map(|line| {
            let mut parts = line.split_ascii_whitespace();
            let mut next = || parts.next().expect("three numbers a line");
            (
                next().parse().expect("a node"),
                next().parse().expect("a node"),
                next().parse().expect("a weight"),
            )
        })
        .collect();
    let read = clock() - started;
    let started = clock();
    let graph = Graph::new(nodes, &edges, &mut || ()).expect("a graph");
    let made = clock() - started;
    let newman = Objective::Modularity { resolution: 1.0 };
    let mut times = Vec::new();
    let (mut labels, mut levels, mut count) = (Vec::new(), 1, 0);
    for _ in 0..runs {
        let started = clock();
        match method.split_once('=') {
            None if method == "leiden" => labels = leiden(&graph, newman, seed, None, &mut || ()),
            None if method == "label_propagation" => labels = label_propagation(&graph, seed, &mut || ()),
            None if method == "hierarchy" => {
                let top = leiden(&graph, newman, seed, None, &mut || ());
                let all = hierarchy(&graph, &top, newman, 10, seed, None, &mut || ());
                levels = all.iter().map(|community| community.level).max().unwrap_or(0) + 1;
                count = all.len();
                labels = labels_at(&all, 0, nodes);
            }
            Some(("potts", resolution)) => {
                let resolution = resolution.parse().expect("a resolution");
                labels = leiden(&graph, Objective::Potts { resolution }, seed, None, &mut || ());
            }
            _ => panic!("unknown method {method}"),
        }
        times.push(clock() - started);
    }
    times.sort_by(f64::total_cmp);
    let distinct = labels.iter().collect::<std::collections::HashSet<_>>().len();
    println!(
        "read {read:.4} made {made:.4} median {:.4} fastest {:.4} communities {distinct} levels {levels} all {} q {:.5}",
        times[runs / 2],
        times[0],
        count.max(distinct),
        modularity(&graph, &labels, 1.0, &mut || ())
    );
    if let Some(path) = rest.first() {
        let lines: Vec<String> = labels.iter().map(u32::to_string).collect();
        std::fs::write(path, lines.join("\n")).expect("labels are written");
    }
}
