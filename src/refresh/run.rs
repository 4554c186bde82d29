//! One CALL of rag_refresh, from round to round.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use pgrx::{notice, pg_sys};

use super::work::{REEMBED, STEPS, Work};
use crate::collection::Collection;
use crate::error::{self, Error, Result};
use crate::graph::Descriptions;
use crate::ingest::{self, Waiting};
use crate::model::{Flight, trouble};
use crate::progress::count;

/// How often a run says how far it is.
const SAY: Duration = Duration::from_secs(10);
/// Failures, and no answer, after which a run ends.
const HOPELESS: i64 = 20;

pub struct Run {
    pub collection: String,
    /// Schema and owner.
    identity: (pg_sys::Oid, pg_sys::Oid),
    steps: VecDeque<&'static str>,
    limit: Option<i64>,
    flight: Flight,
    work: Option<Phase>,
    /// Why the run ends, once what was answered before is committed.
    stopped: Option<Error>,
}

/// A step at work, and how its calls go.
struct Phase {
    work: Work,
    begun: bool,
    flying: bool,
    /// Answers since the last plan, and what that plan was waiting for.
    landed: i64,
    waiting: i64,
    /// Of the whole phase.
    answered: i64,
    failed: i64,
    started: Instant,
    said: Instant,
}

impl Run {
    /// A run of the steps asked for; without them, of those that cost nothing or were ordered before.
    pub fn new(collection: &Collection, limit: Option<i64>, steps: Option<Vec<&'static str>>) -> Result<Run> {
        if let Some(steps) = &steps {
            order(collection, steps)?;
        }
        let mut chosen = VecDeque::new();
        let mut left_out = Vec::new();
        for step in STEPS {
            match &steps {
                // Reports are about communities, which cost nothing.
                Some(steps) if steps.contains(&step) || step == "communities" && steps.contains(&"reports") => {
                    chosen.push_back(step);
                }
                Some(_) => {}
                None if is_ordered(collection, step)? => chosen.push_back(step),
                // It is rare: a description has to be long.
                None if step == "describe" && Descriptions::pending(collection)?.total() == 0 => {}
                None => left_out.push(step),
            }
        }
        let options = &collection.options;
        if let Some(at) = chosen.iter().position(|step| *step == "embed") {
            match &options.next_embedder {
                // The answers of a queue may take days, in which new texts want vectors of the embedder that there is.
                Some(next) => chosen.insert(at + usize::from(next.is_queue()), REEMBED),
                None if options.embedder.lsa().is_some() => chosen.insert(at, REEMBED),
                None => {}
            }
        }
        if !left_out.is_empty() {
            let name = crate::collection::literal(&collection.name);
            error::notice(
                format!(
                    "left out, since it costs and nobody has ordered it: {}",
                    left_out.join(", ")
                ),
                format!(
                    "CALL rag_refresh({name}, steps => '{{{}}}') orders it, for later calls, too.",
                    left_out.join(",")
                ),
            );
        }
        Ok(Run {
            collection: collection.name.clone(),
            identity: (collection.oid, collection.owner),
            steps: chosen,
            limit,
            flight: Flight::new(),
            work: Some(Phase::new(Work::Cut(Waiting::default()))),
            stopped: None,
        })
    }

    /// An error if the name is another collection's by now, or the owner, whose models and keys are in use, another one.
    fn check(&self, collection: Collection) -> Result<Collection> {
        match (collection.oid, collection.owner) == self.identity {
            true => Ok(collection),
            false => Err(collection.renamed()),
        }
    }

    /// Whether this is the first piece of a step, which may drop the index.
    fn begins(&self) -> bool {
        self.work.as_ref().is_some_and(|phase| !phase.begun)
    }

    fn replaces(&self) -> bool {
        self.work.as_ref().is_some_and(|phase| phase.work.replaces())
    }

    /// A short piece of work; whether there is more.
    pub fn round(&mut self) -> Result<bool> {
        if let Some(error) = self.stopped.take() {
            return Err(error);
        }
        let flying = self.work.as_ref().map(|phase| phase.flying);
        let collection = self.check(match flying {
            Some(false) => Collection::build_nodes(Some(&self.collection), self.replaces(), self.begins())?,
            _ => Collection::write(Some(&self.collection))?,
        })?;
        let more = self.go_on(&collection)?;
        // Statements go by name: if that is the collection's still, it was when they wrote.
        collection.must_be_itself()?;
        Ok(more)
    }

    fn go_on(&mut self, collection: &Collection) -> Result<bool> {
        let Some(phase) = &mut self.work else {
            return self.next(collection);
        };
        if phase.flying {
            let round = self.flight.round(collection, phase.work.step(), self.limit)?;
            phase.landed += round.answered + round.failed;
            phase.answered += round.answered;
            phase.failed += round.failed;
            phase.say();
            phase.flying = !round.is_last;
            self.stopped = round.stopped;
            if self.stopped.is_none() && phase.answered == 0 && phase.failed >= HOPELESS {
                self.stopped = Some(phase.give_up(collection)?);
            }
            return Ok(true);
        }
        // What was waited for and did not come, will not come in this run.
        let skip = phase.begun && phase.waiting > 0 && phase.landed == 0;
        let (waiting, done) = phase.work.piece(collection, !phase.begun, skip)?;
        phase.begun = true;
        phase.waiting = waiting;
        phase.landed = 0;
        phase.say();
        let limited = waiting > 0 && self.limit.is_some_and(|limit| self.flight.calls >= limit);
        if waiting > 0 && !skip && !limited {
            phase.flying = true;
            self.flight.rewind();
            return Ok(true);
        }
        if limited {
            self.steps.clear();
        } else if !done {
            return Ok(true);
        }
        phase.tell(collection, limited)?;
        self.work = None;
        Ok(true)
    }

    /// Takes up the next step that has work.
    fn next(&mut self, collection: &Collection) -> Result<bool> {
        while let Some(step) = self.steps.pop_front() {
            if let Some(work) = Work::of(step, collection)? {
                self.work = Some(Phase::new(work));
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Phase {
    fn new(work: Work) -> Phase {
        Phase {
            work,
            begun: false,
            flying: false,
            landed: 0,
            waiting: 0,
            answered: 0,
            failed: 0,
            started: Instant::now(),
            said: Instant::now(),
        }
    }

    /// How far the phase is, now and then.
    fn say(&mut self) {
        if self.said.elapsed() < SAY {
            return;
        }
        self.said = Instant::now();
        let step = self.work.step();
        let (done, total, of) = match self.work.pace() {
            Some(pace) => (
                pace.done as i64 + self.landed.min(pace.total as i64 - pace.done as i64),
                pace.total as i64,
                pace.of,
            ),
            None => (self.landed, self.waiting, ("call", "calls")),
        };
        if total == 0 {
            return;
        }
        let share = done as f64 / total as f64;
        let left = match done {
            0 => String::new(),
            _ => format!(
                ", about {} left",
                span(self.started.elapsed().as_secs_f64() * (1.0 - share) / share)
            ),
        };
        let total = count(total, of.0, of.1);
        notice!("{step}: {done} of {total} ({:.0} %){left}", share * 100.0);
    }

    /// Ends a run in which nothing works: that is no item's fault, and none has lost an attempt by it.
    fn give_up(&self, collection: &Collection) -> Result<Error> {
        let step = self.work.step();
        let error = trouble::hopeless(collection, step, self.failed)?;
        let sql = "UPDATE {s}.model_call SET status = 'pending', attempts = greatest(attempts - 1, 0) \
                   WHERE step = $1 AND status = 'failed' AND finished_at >= clock_timestamp() - make_interval(secs => $2)";
        let seconds = self.started.elapsed().as_secs_f64() + 1.0;
        collection.execute(sql, &[step.into(), seconds.into()])?;
        Ok(error)
    }

    /// What the phase has done, at its end.
    fn tell(&self, collection: &Collection, limited: bool) -> Result<()> {
        let step = self.work.step();
        let sql = "SELECT count(*) FROM {s}.model_call WHERE step = $1 AND status = 'pending' AND NOT stale";
        let waiting: i64 = collection.query_one(sql, &[step.into()], |row| row.need(1))?;
        let mut text = match self.work.pace() {
            Some(pace) if pace.total == 0 => return Ok(()),
            Some(pace) if waiting > 0 => {
                format!("{step}: not all of {}", count(pace.total as i64, pace.of.0, pace.of.1))
            }
            Some(pace) => format!("{step}: {}", count(pace.total as i64, pace.of.0, pace.of.1)),
            None if waiting > 0 => format!("{step}: not done"),
            None => format!("{step}: done"),
        };
        let calls = self.answered + self.failed;
        if calls > 0 {
            text += &format!(", {}", count(calls, "call", "calls"));
        }
        let failed = self.failed.max(self.work.failed());
        let time = span(self.started.elapsed().as_secs_f64());
        match failed {
            0 => notice!("{text}, {time}"),
            _ => trouble::tell_failures(collection, step, format!("{text}, {failed} failed, {time}"))?,
        }
        if waiting > 0 && limited {
            notice!("{step}: max_calls is reached; CALL rag_refresh again to go on");
        } else if waiting > 0 {
            ingest::tell_waiting(collection, waiting, &format!("{step} goes on"));
        }
        Ok(())
    }
}

/// A time as a person says it.
fn span(seconds: f64) -> String {
    match seconds {
        s if s < 100.0 => format!("{s:.0} s"),
        s if s < 6000.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

/// Whether a refresh that is told no steps does this one: it costs nothing, or was done or planned before.
fn is_ordered(collection: &Collection, step: &str) -> Result<bool> {
    let options = &collection.options;
    let model = match step {
        "tree" | "describe" | "reports" => &options.summarizer,
        "extract" => &options.extractor,
        _ => return Ok(true),
    };
    if !model.is_paid() || step == "reports" && options.lazy_reports {
        return Ok(true);
    }
    let sql = "SELECT EXISTS (SELECT FROM {s}.setting WHERE key = 'step.' || $1 OR key = 'ordered' AND value ? $1) \
               OR EXISTS (SELECT FROM {s}.model_call WHERE step = $1 AND status <> 'forgotten')";
    collection.query_one(sql, &[step.into()], |row| row.need(1))
}

/// Notes that somebody has asked for these steps.
fn order(collection: &Collection, steps: &[&'static str]) -> Result<()> {
    let is_new = |step: &&str| steps.contains(step) && !is_ordered(collection, step).unwrap_or(true);
    let steps: Vec<&str> = STEPS.into_iter().filter(is_new).collect();
    if steps.is_empty() {
        return Ok(());
    }
    let sql = "INSERT INTO {s}.setting (key, value) VALUES ('ordered', to_jsonb($1)) \
               ON CONFLICT (key) DO UPDATE SET value = setting.value || excluded.value";
    collection.execute(sql, &[steps.into()])?;
    Ok(())
}
