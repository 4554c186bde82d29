//! A local model server for tests: it speaks the interfaces of OpenAI and Anthropic over HTTP/1.1, and fails as real ones do.
#![forbid(unsafe_code)]

mod http;
mod replies;

pub use replies::unit_vector;

use http::Call;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::BufRead;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Answers a chat from its system message and its user message.
pub type ChatFn = dyn Fn(&str, &str) -> String + Send + Sync;

/// Embeds a text in so many dimensions.
pub type EmbedFn = dyn Fn(&str, usize) -> Vec<f32> + Send + Sync;

/// Counts the tokens of a text.
pub type CountFn = dyn Fn(&str) -> usize + Send + Sync;

#[derive(Clone)]
pub struct Options {
    /// Before each good answer.
    pub delay: Duration,
    pub faults: Faults,
    /// Of a vector, if the request names none.
    pub dimensions: usize,
    pub chat: Arc<ChatFn>,
    /// What requests must have as their key; status 401 if they have not.
    pub key: Option<String>,
    pub embed: Arc<EmbedFn>,
    /// How `usage` counts the tokens of a text.
    pub tokens: Arc<CountFn>,
}

impl Default for Options {
    /// No delay, no faults, no key, 8 dimensions, a token a word; chats are answered by their user message's first words, and texts embedded by
    /// [`unit_vector`].
    fn default() -> Self {
        Self {
            delay: Duration::ZERO,
            faults: Faults::None,
            dimensions: 8,
            chat: Arc::new(|_, user| {
                let words: Vec<&str> = user.split_whitespace().take(8).collect();
                format!("About: {}.", words.join(" "))
            }),
            key: None,
            embed: Arc::new(unit_vector),
            tokens: Arc::new(|text| text.split_whitespace().count()),
        }
    }
}

/// What goes wrong with one request.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// The connection is closed before the request is read.
    Refuse,
    /// The connection is closed after this time.
    Delay(Duration),
    /// Status 429.
    TooMany { retry_after: Option<u32> },
    /// Status 429 for an account that is used up.
    Quota,
    /// Status 503 with the wait in seconds.
    Busy { retry_after: u32 },
    /// This status, with a body that repeats the request.
    Status(u16),
    /// The connection is closed after half the body.
    CutBody,
    /// Status 200 with a body that is not JSON.
    Garbage,
    /// The connection is closed once the request is read.
    CloseSocket,
    /// Status 200 with a body of so many bytes, whose length is not told beforehand.
    Huge(usize),
    /// A chat without text, or a list of no vectors or scores.
    Empty,
    /// A chat cut in the middle by its length.
    Length,
    /// A chat that thinks aloud before its answer.
    Think,
    /// A chat whose answer stands in a code block between prose.
    Fenced,
    /// A chat whose answer is cut in the middle without a word about it.
    Broken,
    /// Status 302 to another path of the server.
    Redirect,
    /// No byte of an answer.
    Hang,
    /// Half the head, then nothing.
    HangHeaders,
    /// Half the body, then nothing.
    HangBody,
}

/// Which requests go wrong. They are numbered from 0 since the start, the last [`Mock::set_faults`] or [`Mock::reset`].
#[derive(Clone, Debug, PartialEq)]
pub enum Faults {
    None,
    Always(Fault),
    /// By the request's number, and none after the last.
    Script(Vec<Option<Fault>>),
    /// Each of the kinds hits this share of the requests, by their numbers.
    Random {
        seed: u64,
        share: f64,
        kinds: Vec<Fault>,
    },
}

impl Faults {
    fn of(&self, number: usize) -> Option<Fault> {
        match self {
            Self::None => None,
            Self::Always(fault) => Some(fault.clone()),
            Self::Script(faults) => faults.get(number).cloned().flatten(),
            Self::Random { seed, share, kinds } => {
                let draw = mix(seed.wrapping_add(mix(number as u64))) as f64 / u64::MAX as f64;
                kinds.get((draw / share) as usize).cloned()
            }
        }
    }
}

/// The end of SplitMix64.
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// A request that came in. One refused before it was read has neither path nor body.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    pub method: String,
    pub path: String,
    /// By name in lower case.
    pub headers: BTreeMap<String, String>,
    pub body: Value,
    /// When its first byte came.
    pub time: Instant,
    pub fault: Option<Fault>,
}

/// The server. Dropping it closes its sockets and ends its threads.
pub struct Mock {
    address: SocketAddr,
    shared: Arc<Shared>,
    listener: Option<JoinHandle<()>>,
}

struct Shared {
    options: Options,
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    faults: Option<Faults>,
    number: usize,
    log: Vec<Seen>,
    answered: usize,
    distinct: HashSet<(String, String)>,
    at_once: usize,
    most_at_once: usize,
    sent: usize,
    connections: HashMap<usize, TcpStream>,
    threads: Vec<JoinHandle<()>>,
    ended: bool,
}

impl Mock {
    /// Listens on a free port of the loopback address.
    pub fn start(options: Options) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("the port");
        let state = State {
            faults: Some(options.faults.clone()),
            ..State::default()
        };
        let shared = Arc::new(Shared {
            options,
            state: Mutex::new(state),
            ended: Condvar::new(),
        });
        let accepting = shared.clone();
        Self {
            address,
            shared,
            listener: Some(std::thread::spawn(move || accept(&accepting, &listener))),
        }
    }

    /// The URL that paths are put behind.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// All requests, in the order in which they were read.
    pub fn log(&self) -> Vec<Seen> {
        self.shared.state().log.clone()
    }

    /// Requests answered without a fault.
    pub fn answered(&self) -> usize {
        self.shared.state().answered
    }

    /// Different requests answered without a fault.
    pub fn distinct(&self) -> usize {
        self.shared.state().distinct.len()
    }

    /// Requests that were waiting for their answer at one time, at most.
    pub fn most_at_once(&self) -> usize {
        self.shared.state().most_at_once
    }

    /// Requests that are waiting for their answer.
    pub fn waiting(&self) -> usize {
        self.shared.state().at_once
    }

    /// Bytes of bodies sent.
    pub fn sent(&self) -> usize {
        self.shared.state().sent
    }

    /// Lets other requests go wrong; the next one has number 0.
    pub fn set_faults(&self, faults: Faults) {
        let mut state = self.shared.state();
        state.faults = Some(faults);
        state.number = 0;
    }

    /// Forgets all requests so far; the next one has number 0.
    pub fn reset(&self) {
        let mut state = self.shared.state();
        state.log.clear();
        state.distinct.clear();
        (state.number, state.answered, state.sent) = (0, 0, 0);
        state.most_at_once = state.at_once;
    }
}

impl Drop for Mock {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.ended = true;
        for stream in state.connections.values() {
            // The peer may have closed it.
            let _ = stream.shutdown(Shutdown::Both);
        }
        drop(state);
        self.shared.ended.notify_all();
        // A connection wakes the listener.
        let _ = TcpStream::connect(self.address);
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
        let threads = std::mem::take(&mut self.shared.state().threads);
        for thread in threads {
            let _ = thread.join();
        }
    }
}

fn accept(shared: &Arc<Shared>, listener: &TcpListener) {
    for (number, stream) in listener.incoming().enumerate() {
        let mut state = shared.state();
        if state.ended {
            return;
        }
        let Ok((stream, other)) = stream.and_then(|stream| Ok((stream.try_clone()?, stream))) else {
            continue;
        };
        state.connections.insert(number, other);
        state.threads.retain(|thread| !thread.is_finished());
        let shared = shared.clone();
        state.threads.push(std::thread::spawn(move || {
            // Clients that go away are no fault of the server.
            let _ = serve(&shared, stream);
            if let Some(stream) = shared.state().connections.remove(&number) {
                let _ = stream.shutdown(Shutdown::Both);
            }
        }));
    }
}

/// Answers the requests of one connection, one after the other.
fn serve(shared: &Shared, stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut call = Call::new(stream)?;
    while !call.reader.fill_buf()?.is_empty() {
        let time = Instant::now();
        let fault = shared.begin();
        let counted = Counted(shared);
        let seen = match fault {
            Some(Fault::Refuse) => Seen {
                method: String::new(),
                path: String::new(),
                headers: BTreeMap::new(),
                body: Value::Null,
                time,
                fault,
            },
            fault => call.read(time, fault)?,
        };
        shared.state().log.push(seen.clone());
        if !replies::reply(shared, &mut call, &seen, counted)? {
            break;
        }
    }
    Ok(())
}

/// Counts a request as waiting until it is dropped, before the last byte of its answer is sent.
struct Counted<'a>(&'a Shared);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.state().at_once -= 1;
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request and tells what goes wrong with it.
    fn begin(&self) -> Option<Fault> {
        let mut state = self.state();
        let number = state.number;
        state.number += 1;
        state.at_once += 1;
        state.most_at_once = state.most_at_once.max(state.at_once);
        state.faults.as_ref().and_then(|faults| faults.of(number))
    }

    /// Sleeps, but no longer than the server lives.
    fn sleep(&self, time: Duration) {
        if !time.is_zero() {
            let woken = self.ended.wait_timeout_while(self.state(), time, |state| !state.ended);
            drop(woken);
        }
    }
}
