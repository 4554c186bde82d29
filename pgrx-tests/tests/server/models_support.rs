//! What the tests of models share: a mock behind CREATE SERVER, collections that use it, and CALLs in other sessions.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use graphrag_mock::{Mock, Options};
use pg_graphrag_tests::Database;
use postgres::{Client, Config, Error};
use serde_json::{Value, json};

use crate::support::{list, one, run};

/// The text between the marks that a prompt puts around it.
pub fn passage(user: &str) -> &str {
    let start = user.find("<passage>\n").map_or(0, |at| at + 10);
    let end = user.rfind("\n</passage>").unwrap_or(user.len());
    &user[start..end]
}

/// Answers extractions, reports and summaries with words of what is asked.
pub fn answer(system: &str, user: &str) -> String {
    if system.contains("\"entities\"") {
        let text = passage(user);
        let names: Vec<&str> = text
            .split(|c: char| !c.is_alphanumeric())
            .filter(|word| word.starts_with(char::is_uppercase))
            .take(2)
            .collect();
        let [a, b] = names[..] else {
            return json!({"entities": [], "relations": []}).to_string();
        };
        return json!({
            "entities": [{"name": a, "type": "person", "description": "one"}, {"name": b}],
            "relations": [{"subject": a, "predicate": "knows", "object": b, "quote": text, "strength": 3}],
        })
        .to_string();
    }
    if system.contains("\"findings\"") {
        return json!({"title": "A title", "summary": format!("A report of {} bytes.", user.len()), "rating": 5, "findings": []})
            .to_string();
    }
    let words: Vec<&str> = user
        .split_whitespace()
        .filter(|word| !word.contains(['<', '>', '=']))
        .take(6)
        .collect();
    // Another text has another summary.
    let sum = user
        .bytes()
        .fold(7_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    format!("Summary {sum}: {}.", words.join(" "))
}

pub fn mock(change: impl FnOnce(&mut Options)) -> Mock {
    let mut options = Options {
        chat: Arc::new(answer),
        ..Options::default()
    };
    change(&mut options);
    Mock::start(options)
}

/// CREATE SERVER for an address; `more` are further options, each with a comma before it.
pub fn create_server(name: &str, base_url: &str, more: &str) -> String {
    format!(
        "CREATE SERVER {name} FOREIGN DATA WRAPPER graphrag_model OPTIONS \
           (base_url '{base_url}', chat_model 'chat', embedding_model 'embed'{more}); "
    )
}

/// Documents of one block each, numbered.
pub fn documents(count: i32) -> String {
    format!(
        "INSERT INTO kb.document (body) SELECT 'Anna' || i || ' met Bert' || i || ' in Ulm.' FROM generate_series(1, {count}) i; "
    )
}

/// The server m and the collection kb; `options` and `arguments` each begin with a comma, or are empty.
pub fn collection(client: &mut Client, mock: &Mock, options: &str, arguments: &str) {
    run(
        client,
        &format!(
            "{}SELECT rag_create('kb', 8{arguments})",
            create_server("m", &mock.base_url(), options)
        ),
    );
}

/// A session whose notices are kept.
pub struct Heard {
    pub client: Client,
    notices: Receiver<String>,
}

impl Heard {
    pub fn new(database: &Database) -> Heard {
        let (sender, notices) = channel();
        let sender = Mutex::new(sender);
        let mut config: Config = database.config();
        config.notice_callback(move |notice| {
            let text = format!(
                "{} {} {} {}",
                notice.severity(),
                notice.message(),
                notice.detail().unwrap_or_default(),
                notice.hint().unwrap_or_default()
            );
            // The test may be over.
            let _ = sender.lock().expect("a lock").send(text);
        });
        Heard {
            client: config.connect(postgres::NoTls).expect("a connection"),
            notices,
        }
    }

    /// What was said since the last time.
    pub fn said(&self) -> String {
        self.notices.try_iter().collect::<Vec<_>>().join("\n")
    }
}

/// A statement that runs in a session of its own.
pub struct Running {
    pub pid: i32,
    thread: JoinHandle<(Result<(), Error>, Client)>,
}

impl Running {
    pub fn start(mut client: Client, sql: &str) -> Running {
        let pid = one(&mut client, "SELECT pg_backend_pid()");
        let sql = sql.to_owned();
        Running {
            pid,
            thread: thread::spawn(move || (client.batch_execute(&sql), client)),
        }
    }

    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for its end.
    pub fn end(self) -> (Result<(), Error>, Client) {
        self.thread.join().expect("the session does not panic")
    }
}

/// Waits until something is so.
#[track_caller]
pub fn until(what: &str, mut so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !so() {
        assert!(start.elapsed() < Duration::from_secs(60), "not within a minute: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Threads of a backend.
pub fn threads(pid: i32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count)
}

/// A thread that was joined may stand in /proc for a moment more: the kernel lets who joins it go before it removes it.
pub fn until_threads_ended(pid: i32, case: &str) {
    until(&format!("threads of the backend end: {case}"), || threads(pid) == 1);
}

/// SQLSTATE, message, detail and hint of an error, in one text.
pub fn told(error: &Error) -> String {
    match error.as_db_error() {
        Some(error) => format!(
            "{} {} | {} | {}",
            error.code().code(),
            error.message(),
            error.detail().unwrap_or_default(),
            error.hint().unwrap_or_default()
        ),
        None => format!("{error:?}"),
    }
}

type Handler = dyn Fn(&str, &Value) -> (u16, String) + Send + Sync;

/// A server that answers by the content of a request, as the mock does not; its threads live as long as the process.
pub fn serve(handler: impl Fn(&str, &Value) -> (u16, String) + Send + Sync + 'static) -> String {
    let handler: Arc<Handler> = Arc::new(handler);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/v1", listener.local_addr().expect("the port"));
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let handler = handler.clone();
            // Clients that go away are no fault of the server.
            thread::spawn(move || drop(answer_all(&stream, &*handler)));
        }
    });
    url
}

fn answer_all(stream: &TcpStream, handler: &Handler) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut reader, mut writer) = (BufReader::new(stream), stream);
    loop {
        let (mut first, mut length) = (String::new(), 0);
        if reader.read_line(&mut first)? == 0 {
            return Ok(());
        }
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            match line.trim_end().to_lowercase().split_once(": ") {
                Some(("content-length", number)) => length = number.parse().unwrap_or(0),
                Some(_) => {}
                None => break,
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let path = first.split(' ').nth(1).unwrap_or_default();
        let (status, text) = handler(path, &serde_json::from_slice(&body).unwrap_or(Value::Null));
        write!(
            writer,
            "HTTP/1.1 {status} Served\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{text}",
            text.len()
        )?;
    }
}

/// The reply of a chat.
pub fn chat_reply(text: &str) -> String {
    json!({"choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
           "usage": {"prompt_tokens": 10, "completion_tokens": 5}})
    .to_string()
}

/// The reply of an embedder.
pub fn vectors_reply(vectors: &[Vec<f32>]) -> String {
    let data: Vec<Value> = vectors
        .iter()
        .enumerate()
        .map(|(index, vector)| json!({"index": index, "embedding": vector}))
        .collect();
    json!({"data": data, "usage": {"prompt_tokens": 4}}).to_string()
}

/// What was asked in requests that were answered well: user messages of chats and single texts to embed, sorted.
pub fn items(mock: &Mock) -> Vec<String> {
    let mut items: Vec<String> = Vec::new();
    for seen in mock.log().iter().filter(|seen| seen.fault.is_none()) {
        match seen.body["input"].as_array() {
            Some(texts) => items.extend(texts.iter().map(Value::to_string)),
            None => items.push(seen.body["messages"].to_string()),
        }
    }
    items.sort_unstable();
    items
}

/// All steps.
pub const ALL: &str = "CALL rag_refresh('kb', steps => '{embed,tree,extract,communities,reports}')";
/// The bill of kb.
pub const USAGE: &str = "SELECT u::text FROM rag_usage('kb') u";

/// `step status count` of a ledger.
pub fn ledger_of(client: &mut Client, name: &str) -> Vec<String> {
    let sql = format!(
        "SELECT step || ' ' || status || ' ' || count(*) FROM {name}.model_call GROUP BY step, status ORDER BY 1"
    );
    list(client, &sql)
}

/// What a statement comes to: nothing, or SQLSTATE and message of its error.
pub fn outcome(result: &Result<(), postgres::Error>) -> String {
    match result {
        Ok(()) => String::new(),
        Err(error) => told(error).split(" | ").next().unwrap_or_default().to_owned(),
    }
}

/// Extraction alone.
pub const EXTRACT: &str = "CALL rag_refresh('kb', steps => '{extract}')";

/// What a step's line of rag_status says: done, pending, failed, calls, waiting.
pub fn status(client: &mut Client, step: &str) -> [i64; 5] {
    let sql = "SELECT done, pending, failed, calls, waiting FROM rag_status('kb') WHERE step = $1";
    let row = client.query_one(sql, &[&step]).expect("a line");
    [0, 1, 2, 3, 4].map(|column| row.get(column))
}

/// Each of so many items has been asked, and only once.
#[track_caller]
pub fn asked_once(mock: &Mock, count: usize) {
    let all = items(mock);
    let mut distinct = all.clone();
    distinct.dedup();
    assert_eq!((all.len(), distinct.len()), (count, count));
}
