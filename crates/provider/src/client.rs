//! The caller's side, and the helper thread that owns the runtime, the connections and the requests.

use crate::failure::{Failure, FailureKind, Stop};
use crate::limits::{Limits, backoff};
use crate::send::{Sender, Trouble};
use crate::{Outcome, Request, Settings, wire};
use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc as queue, oneshot};
use tokio::task::JoinSet;

/// Failures in a row that are always few enough to be chance.
const FEW_FAILURES: usize = 8;

const PANICKED: Stop = Stop::Helper("the helper thread panicked");

type Result<T> = std::result::Result<T, Stop>;
type Event = Result<Done>;

/// A request that is done with.
struct Done {
    id: u64,
    /// When it was sent for the last time, and when that came to its end.
    sent: Instant,
    ended: Instant,
    outcome: Outcome,
}

/// A service in use: requests go in by [`submit`](Self::submit), and their outcomes come out by [`receive`](Self::receive) in any order.
///
/// Dropping it closes all connections at once, whatever the requests are waiting for.
pub struct Client {
    helper: Option<Helper>,
    /// Submitted, and not heard of from the helper.
    pending: usize,
    /// Outcomes that can be received.
    ready: VecDeque<(u64, Outcome)>,
    /// Failures that may be the service's, until it shows that it is up: were it down, no request would be to blame.
    held: Vec<(Instant, u64, Failure)>,
    stop: Option<Stop>,
}

struct Helper {
    requests: queue::UnboundedSender<(u64, Request)>,
    events: mpsc::Receiver<Event>,
    /// Dropped to end the thread.
    end: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Client {
    /// Starts the helper thread. It inherits the caller's signal mask.
    pub fn start(settings: Settings) -> Result<Self> {
        if settings.concurrency == 0 || settings.requests_per_minute == Some(0) || settings.timeout.is_zero() {
            return Err(Stop::Settings("no request could ever be sent or answered"));
        }
        if settings.temperature.is_some_and(|temperature| !temperature.is_finite()) {
            return Err(Stop::Settings("the temperature is not finite"));
        }
        let service = Service {
            sender: Sender::new(&settings)?,
            limits: Limits::new(&settings),
            settings,
        };
        let (requests, to_send) = queue::unbounded_channel();
        let (answers, events) = mpsc::channel();
        let (end, ended) = oneshot::channel();
        let thread = Builder::new().name("graphrag-provider".into());
        let thread = thread.spawn(move || {
            let run = AssertUnwindSafe(|| run(service, to_send, &answers, ended));
            if let Err(stop) = catch_unwind(run).unwrap_or(Err(PANICKED)) {
                // The client may be gone.
                let _ = answers.send(Err(stop));
            }
        });
        Ok(Self {
            helper: Some(Helper {
                requests,
                events,
                end,
                thread: thread.map_err(|_| Stop::Helper("the helper thread could not be started"))?,
            }),
            pending: 0,
            ready: VecDeque::new(),
            held: vec![],
            stop: None,
        })
    }

    /// Hands over a request, which starts when fewer than the settings' `concurrency` are on their way. After a [`Stop`] none is sent.
    pub fn submit(&mut self, id: u64, request: Request) {
        self.pending += 1;
        if let Some(helper) = &self.helper {
            // A helper that has ended tells why by its last event.
            let _ = helper.requests.send((id, request));
        }
    }

    /// Requests submitted whose outcome has not been received.
    pub fn in_flight(&self) -> usize {
        self.pending + self.held.len() + self.ready.len()
    }

    /// The outcome of one request, or `None` if there is none within `wait`.
    ///
    /// After a [`Stop`] each call gives the same one, and nothing more is sent. A failure that [may pass](FailureKind::may_pass) is
    /// given only once the service has answered another request; if none is left that it could answer, there is a stop in its place.
    pub fn receive(&mut self, wait: Duration) -> Result<Option<(u64, Outcome)>> {
        let until = Instant::now().checked_add(wait);
        loop {
            if let Some(outcome) = self.ready.pop_front() {
                return Ok(Some(outcome));
            }
            if let Some(stop) = &self.stop {
                return Err(stop.clone());
            }
            let Some(helper) = &self.helper else {
                return Err(PANICKED);
            };
            let left = until.map_or(wait, |until| until.saturating_duration_since(Instant::now()));
            let taken = match helper.events.recv_timeout(left) {
                Ok(event) => event.and_then(|done| self.take(done)),
                Err(RecvTimeoutError::Timeout) => return Ok(None),
                Err(RecvTimeoutError::Disconnected) => Err(PANICKED),
            };
            if let Err(stop) = taken {
                self.stop = Some(stop);
                self.end();
            }
        }
    }

    fn take(&mut self, done: Done) -> Result<()> {
        self.pending -= 1;
        match done.outcome {
            Outcome::Failed(failure) if failure.kind.may_pass() => self.held.push((done.ended, done.id, failure)),
            outcome => {
                // What was sent before a failure, and answered after it, does not tell that the service is up again.
                let past = self.held.extract_if(.., |(ended, ..)| *ended <= done.sent);
                self.ready
                    .extend(past.map(|(_, id, failure)| (id, Outcome::Failed(failure))));
                self.ready.push_back((done.id, outcome));
            }
        }
        match self.held.last() {
            Some((.., failure)) if self.pending == 0 => Err(Stop::Unreachable { reason: failure.kind }),
            _ => Ok(()),
        }
    }

    fn end(&mut self) {
        if let Some(Helper { thread, end, .. }) = self.helper.take() {
            drop(end);
            // It has caught its own panic.
            let _ = thread.join();
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.end();
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut client = f.debug_struct("Client");
        client
            .field("in_flight", &self.in_flight())
            .field("stop", &self.stop)
            .finish_non_exhaustive()
    }
}

struct Service {
    settings: Settings,
    sender: Sender,
    limits: Limits,
}

fn run(
    service: Service,
    requests: queue::UnboundedReceiver<(u64, Request)>,
    answers: &mpsc::Sender<Event>,
    ended: oneshot::Receiver<()>,
) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|_| Stop::Helper("the helper thread could not be started"))?;
    let result = catch_unwind(AssertUnwindSafe(|| {
        runtime.block_on(serve(Arc::new(service), requests, answers, ended))
    }));
    // A thread that looks up a host's name cannot be ended and is not waited for.
    runtime.shutdown_background();
    result.unwrap_or(Err(PANICKED))
}

/// Answers requests until the client is gone or one of them shows that there is no use in going on.
async fn serve(
    service: Arc<Service>,
    mut requests: queue::UnboundedReceiver<(u64, Request)>,
    answers: &mpsc::Sender<Event>,
    mut ended: oneshot::Receiver<()>,
) -> Result<()> {
    let concurrency = service.settings.concurrency;
    let too_many = FEW_FAILURES.max(concurrency.saturating_mul(2));
    let mut in_a_row = 0;
    let mut running = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            _ = &mut ended => return Ok(()),
            Some(done) = running.join_next() => {
                let (id, answered): (u64, Result<(Instant, Outcome)>) = done.map_err(|_| PANICKED)?;
                let (sent, outcome) = answered?;
                match &outcome {
                    Outcome::Failed(failure) if failure.kind.may_pass() => {
                        in_a_row += 1;
                        if in_a_row == too_many {
                            return Err(Stop::Unreachable { reason: failure.kind });
                        }
                    }
                    _ => in_a_row = 0,
                }
                // The client may be gone.
                let _ = answers.send(Ok(Done { id, sent, ended: Instant::now(), outcome }));
            }
            request = requests.recv(), if running.len() < concurrency => {
                let Some((id, request)) = request else { return Ok(()) };
                let service = service.clone();
                running.spawn(async move { (id, service.answer(&request).await) });
            }
        }
    }
}

impl Service {
    /// Sends the request until it is answered, fails for good or there is no use in it; answers when it was sent last, too.
    async fn answer(&self, request: &Request) -> Result<(Instant, Outcome)> {
        wire::check(&self.settings, request)?;
        let mut attempts = 0;
        loop {
            self.limits.turn().await;
            let sent = tokio::time::Instant::now();
            let timeout = self.settings.timeout;
            let sending = self.sender.send(&self.settings, request);
            let result = tokio::time::timeout(timeout, sending).await;
            let (kind, wait) = match result.unwrap_or_else(|_| Err(FailureKind::TimedOut(timeout).into())) {
                Ok(answer) => {
                    self.limits.let_through();
                    attempts += 1;
                    return Ok((sent.into_std(), Outcome::Answered(crate::Answer { attempts, ..answer })));
                }
                Err(Trouble::Stop(stop)) => return Err(stop),
                Err(Trouble::Limited { wait }) => {
                    self.limits.limited(sent, wait)?;
                    continue;
                }
                Err(Trouble::Failed { kind, wait }) => (kind, wait),
            };
            attempts += 1;
            if !kind.may_pass() {
                self.limits.let_through();
                return Ok((sent.into_std(), Outcome::Failed(Failure { kind, attempts })));
            }
            if let Some(wait) = wait {
                self.limits.pause(wait)?;
            }
            if attempts > self.settings.retries {
                return Ok((sent.into_std(), Outcome::Failed(Failure { kind, attempts })));
            }
            if wait.is_none() {
                tokio::time::sleep(backoff(Duration::from_millis(500), Duration::from_secs(30), attempts)).await;
            }
        }
    }
}
