//! From the graph of a partition to its communities at all levels.

use graphrag_network::{
    Before, Community, Graph, Objective, components, hierarchy, label_propagation, labels_at, leiden, modularity,
};
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::pg::tick;

/// How communities are found.
#[derive(Clone, Debug, PartialEq)]
pub struct Way {
    pub algorithm: String,
    pub resolution: f64,
    pub max_size: usize,
    pub seed: i64,
}

const ALGORITHMS: [&str; 4] = ["leiden", "cpm", "label_propagation", "components"];

impl Way {
    pub fn new(algorithm: &str, resolution: f64, max_size: i32, seed: i64) -> Result<Way> {
        if !ALGORITHMS.contains(&algorithm) {
            return Err(Error::invalid(format!("unknown algorithm \"{algorithm}\""))
                .hint(format!("Algorithms are '{}'.", ALGORITHMS.join("', '"))));
        }
        Ok(Way {
            algorithm: algorithm.to_owned(),
            resolution,
            max_size: max_size as usize,
            seed,
        })
    }

    /// As it is noted for the next refresh.
    pub fn noted(&self) -> Value {
        json!({"resolution": self.resolution, "max_size": self.max_size, "seed": self.seed})
    }

    fn objective(&self) -> Option<Objective> {
        let resolution = self.resolution;
        match self.algorithm.as_str() {
            "leiden" => Some(Objective::Modularity { resolution }),
            "cpm" => Some(Objective::Potts { resolution }),
            _ => None,
        }
    }

    /// Whether a search can go on from what was found before.
    pub fn goes_on(&self) -> bool {
        self.objective().is_some()
    }
}

/// The communities of one partition.
pub struct Divided {
    pub communities: Vec<Community>,
    /// The weight of all edges.
    pub weight: f64,
    /// The modularity of each level.
    pub modularity: Vec<f64>,
}

/// Finds the communities of a graph; those that were found before are gone on from.
pub fn divide(graph: &Graph, way: &Way, before: Option<&Before>) -> Divided {
    let seed = way.seed as u64;
    let top = match way.objective() {
        Some(objective) => {
            let start = before.map(|before| (&before.levels[0][..], &before.changed[..]));
            leiden(graph, objective, seed, start, &mut tick)
        }
        None if way.algorithm == "components" => components(graph, &mut tick),
        None => label_propagation(graph, seed, &mut tick),
    };
    let communities = match way.objective() {
        Some(objective) => hierarchy(graph, &top, objective, way.max_size, seed, before, &mut tick),
        // Without levels: what has no more members than it has is not divided.
        None => hierarchy(
            graph,
            &top,
            Objective::Modularity { resolution: 1.0 },
            usize::MAX,
            seed,
            None,
            &mut tick,
        ),
    };
    let levels = communities.iter().map(|c| c.level + 1).max().unwrap_or(0);
    let modularity = (0..levels)
        .map(|level| {
            let labels = labels_at(&communities, level, graph.nodes());
            modularity(graph, &labels, way.resolution, &mut tick)
        })
        .collect();
    Divided {
        communities,
        weight: graph.total_weight(),
        modularity,
    }
}
