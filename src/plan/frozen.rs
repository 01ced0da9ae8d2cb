//! Jobs as a file has them, so that another process, on another machine, runs what was planned without planning again.

use std::collections::BTreeSet;

use petgraph::graph::DiGraph;
use serde::{Deserialize, Serialize};
use sweep_job::{Task, Values};

use super::{Identity, Job, JobId, Key, Label, Plan};
use crate::recipe::{Executor, Policy, Resources, Sources};

/// A job, whole.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Frozen {
    /// Its place in the plan.
    pub index: usize,
    /// Its key.
    pub key: Key,
    /// How people name it.
    pub label: Label,
    /// What the key is made of.
    pub identity: Identity,
    /// Every parameter; what it takes from other jobs stands in them by their keys.
    pub values: Values,
    /// What it takes of the machine.
    pub resources: Resources,
    /// What becomes of it if it does not go as it should.
    pub policy: Policy,
    /// The jobs that it needs, by their places in the plan; all of them come earlier.
    pub needs: Vec<usize>,
}

/// Why jobs from a file are no plan.
#[derive(Debug, thiserror::Error)]
pub enum Thawing {
    /// The task is not known, or not in this revision.
    #[error("this program does not know the task `{0}` as the one that planned it did: use the same version")]
    Task(String),
    /// The graph is none.
    #[error("the job {0} needs one that does not come before it")]
    Order(String),
}

impl Plan {
    /// A job as another process gets it.
    pub fn freeze(&self, id: JobId) -> Frozen {
        let Job { key, identity, values, resources, policy, label, .. } = self.job(id).clone();
        let needs: BTreeSet<usize> = self.needs(id).map(JobId::index).collect();
        let needs = needs.into_iter().collect();
        Frozen { index: id.index(), key, label, identity, values, resources, policy, needs }
    }

    /// The plan of these jobs. Their places in it are their places in the list, and so are those of the jobs that they need.
    /// There are no recipes to report on.
    pub fn thaw(jobs: impl IntoIterator<Item = Frozen>) -> Result<Self, Thawing> {
        let mut graph: DiGraph<Job, ()> = DiGraph::new();
        for Frozen { key, label, identity, values, resources, policy, needs, .. } in jobs {
            let task = Task::info(&identity.task).filter(|task| task.revision == identity.revision);
            let task = task.ok_or_else(|| Thawing::Task(identity.task.clone()))?;
            if needs.iter().any(|need| *need >= graph.node_count()) {
                return Err(Thawing::Order(label.to_string()));
            }
            let id = graph.add_node(Job { key, identity, task, values, resources, policy, label });
            for need in needs {
                graph.update_edge(JobId::new(need), id, ());
            }
        }
        Ok(Self {
            studies: Vec::new(),
            executor: Executor::default(),
            only: Vec::new(),
            sources: Sources::default(),
            warnings: Vec::new(),
            typed: Vec::new(),
            rounds: vec![0; graph.node_count()],
            graph,
            origins: Vec::new(),
        })
    }
}
