//! A call that hangs ends at once with its statement, whoever ends it, and leaves nothing behind.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use graphrag_mock::{Fault, Faults, Mock};
use pg_graphrag_tests::{Cluster, Database};
use postgres::Client;

use crate::models_support::{Running, collection, documents, mock, threads, until, until_threads_ended};
use crate::support::{add, one, run};

/// Far below the timeout of the calls, which is two minutes.
const AT_ONCE: Duration = Duration::from_secs(2);

/// Where a call hangs.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Connecting,
    BeforeTheHead,
    InTheHead,
    InTheBody,
    AskedToWait,
}

const PHASES: [Phase; 5] = [
    Phase::Connecting,
    Phase::BeforeTheHead,
    Phase::InTheHead,
    Phase::InTheBody,
    Phase::AskedToWait,
];

/// A port whose queue of connections is full, so that nobody gets a connection.
struct Full {
    url: String,
    child: Child,
}

impl Full {
    fn new() -> Full {
        let script = "import socket, sys\n\
                      s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(0)\n\
                      kept = []\n\
                      for n in range(8):\n    \
                          c = socket.socket(); c.setblocking(False); c.connect_ex(s.getsockname()); kept.append(c)\n\
                      print(s.getsockname()[1], flush=True)\n\
                      sys.stdin.read()\n";
        let mut child = Command::new("python3")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3");
        let mut port = String::new();
        let output = child.stdout.take().expect("its output");
        BufReader::new(output).read_line(&mut port).expect("a port");
        Full {
            url: format!("http://127.0.0.1:{}/v1", port.trim()),
            child,
        }
    }
}

impl Drop for Full {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // It has nothing to say.
        let _ = self.child.wait();
    }
}

/// Lets the calls that follow hang.
fn hang(client: &mut Client, mock: &Mock, full: &Full, phase: Phase) {
    let fault = match phase {
        Phase::Connecting => None,
        Phase::BeforeTheHead => Some(Fault::Hang),
        Phase::InTheHead => Some(Fault::HangHeaders),
        Phase::InTheBody => Some(Fault::HangBody),
        Phase::AskedToWait => Some(Fault::TooMany { retry_after: Some(300) }),
    };
    let url = if fault.is_none() { &full.url } else { &mock.base_url() };
    run(client, &format!("ALTER SERVER m OPTIONS (SET base_url '{url}')"));
    mock.reset();
    mock.set_faults(fault.map_or(Faults::None, Faults::Always));
}

fn answer(client: &mut Client, mock: &Mock) {
    mock.set_faults(Faults::None);
    run(
        client,
        &format!("ALTER SERVER m OPTIONS (SET base_url '{}')", mock.base_url()),
    );
}

/// Waits until the calls of a backend hang.
fn until_it_hangs(mock: &Mock, phase: Phase, running: &Running) {
    until("it hangs", || {
        assert!(!running.is_finished(), "{phase:?}");
        let sent = match phase {
            Phase::Connecting => threads(running.pid) > 1,
            Phase::AskedToWait => !mock.log().is_empty(),
            _ => mock.waiting() > 0 && !mock.log().is_empty(),
        };
        sent && threads(running.pid) > 1
    });
    std::thread::sleep(Duration::from_millis(30));
    assert!(!running.is_finished(), "{phase:?}");
}

/// The collection kb with its embedder and its extractor behind a server, and a leaf and a block to ask for.
fn prepared(client: &mut Client) -> (Mock, Full) {
    let mock = mock(|_| {});
    let full = Full::new();
    collection(
        client,
        &mock,
        ", concurrency '3'",
        ", embedder => 'server:m', extractor => 'server:m'",
    );
    run(client, &documents(4));
    (mock, full)
}

const CALL: &str = "CALL rag_refresh('kb', steps => '{embed,extract}')";

const STATEMENTS: [&str; 5] = [
    CALL,
    "SELECT graph_extract('kb')",
    "SELECT raptor_build('kb')",
    // The vectors of queries are kept in the session, so each is another one.
    "SELECT rag_embed('kb', 'word NUMBER')",
    "SELECT * FROM raptor_search('kb', 'word NUMBER')",
];

/// What is free when nobody asks models of the collection.
fn locks(client: &mut Client) -> i64 {
    one(
        client,
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' \
         AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
    )
}

#[test]
fn models_calls_that_hang_end_with_their_statement() {
    let database = Database::new();
    let mut client = database.client();
    let (mock, full) = prepared(&mut client);
    // So that there is something to search.
    run(&mut client, CALL);
    let mut session = database.client();
    let (mut longest, mut number) = (Duration::ZERO, 0);
    for phase in PHASES {
        for template in STATEMENTS {
            for end in ["cancel", "timeout", "terminate"] {
                number += 1;
                let statement = template.replace("NUMBER", &number.to_string());
                let case = format!("{phase:?}, {end}, {statement}");
                add(&mut client, "kb", &format!("Emil met Frida when {case}."));
                hang(&mut client, &mock, &full, phase);
                if end == "timeout" {
                    run(&mut session, "SET statement_timeout = 150");
                }
                let running = Running::start(session, &statement);
                let pid = running.pid;
                until_it_hangs_or_ends(&mock, phase, &running, end);
                let start = Instant::now();
                if end != "timeout" {
                    assert!(one::<bool>(&mut client, &format!("SELECT pg_{end}_backend({pid})")));
                }
                let (result, after) = running.end();
                let took = start.elapsed();
                longest = longest.max(took);
                assert!(took < AT_ONCE, "{case}: {took:?}");
                let error = result.expect_err(&case);
                session = match end {
                    "terminate" => {
                        assert!(is_shut_down(&error), "{case}: {error:?}");
                        until("the backend is gone", || threads(pid) == 0);
                        database.client()
                    }
                    _ => {
                        let mut session = after;
                        assert_eq!(error.code().map(|code| code.code()), Some("57014"), "{case}");
                        // Its next statement comes after the end of the cancelled transaction.
                        run(&mut session, "SELECT 1");
                        until_threads_ended(pid, &case);
                        session
                    }
                };
                assert_eq!(locks(&mut client), 0, "{case}");
                // Another session goes on at once, and so does the same one.
                answer(&mut client, &mock);
                if statement == CALL {
                    run(&mut client, "CALL rag_refresh('kb', 1, '{embed}')");
                }
                run(&mut session, "RESET statement_timeout");
                run(&mut session, &statement);
                run(&mut session, CALL);
                until_threads_ended(one(&mut session, "SELECT pg_backend_pid()"), &case);
            }
        }
    }
    let left = "SELECT count(*) FROM kb.model_call WHERE status <> 'done'";
    assert_eq!(one::<i64>(&mut client, left), 0);
    println!("at most {longest:?} after the signal");
}

/// The client may see that the connection is closed before it has read why.
fn is_shut_down(error: &postgres::Error) -> bool {
    error.is_closed() || error.code().is_some_and(|code| code.code() == "57P01")
}

fn until_it_hangs_or_ends(mock: &Mock, phase: Phase, running: &Running, end: &str) {
    if end == "timeout" {
        until("it ends", || running.is_finished());
        return;
    }
    until_it_hangs(mock, phase, running);
}

#[test]
fn models_calls_that_hang_do_not_hold_up_a_shutdown() {
    let cluster = Cluster::own();
    let mut client = cluster.client();
    let (mock, full) = prepared(&mut client);
    let mut longest = Duration::ZERO;
    for phase in PHASES {
        for statement in [CALL, "SELECT graph_extract('kb')"] {
            hang(&mut client, &mock, &full, phase);
            let running = Running::start(cluster.client(), statement);
            until_it_hangs(&mock, phase, &running);
            let start = Instant::now();
            cluster.stop("fast");
            let took = start.elapsed();
            longest = longest.max(took);
            assert!(took < AT_ONCE * 2, "{phase:?}, {statement}: {took:?}");
            let error = running.end().0.unwrap_err();
            assert!(is_shut_down(&error), "{phase:?}, {statement}: {error:?}");
            cluster.up();
            client = cluster.client();
        }
    }
    println!("at most {longest:?} for a fast shutdown");
    answer(&mut client, &mock);
    mock.reset();
    run(&mut client, CALL);
    assert_eq!(mock.answered(), 1 + 4);
    let done = "SELECT string_agg(step || ' ' || status, ',' ORDER BY step) FROM kb.model_call";
    let expected = "embed done,embed done,embed done,embed done,extract done,extract done,extract done,extract done";
    assert_eq!(one::<String>(&mut client, done), expected);
}
