//! The server as a client sees it that is not the provider's.

use graphrag_mock::{Fault, Faults, Mock, Options, unit_vector};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Sends a request in two parts, as a client does that waits for leave to send the body, and returns status and body.
fn post(stream: &mut BufReader<TcpStream>, path: &str, body: &Value) -> (u16, Value) {
    let body = body.to_string();
    let head = format!(
        "POST {path} HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.get_mut().write_all(head.as_bytes()).unwrap();
    assert_eq!(head_of(stream).0, 100);
    stream.get_mut().write_all(body.as_bytes()).unwrap();
    let (status, length) = head_of(stream);
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    (status, serde_json::from_slice(&body).unwrap())
}

fn head_of(stream: &mut BufReader<TcpStream>) -> (u16, usize) {
    let (mut status, mut length) = (0, 0);
    for line in stream.lines() {
        let line = line.unwrap();
        match line.split_once(": ") {
            _ if line.is_empty() => break,
            Some(("Content-Length", value)) => length = value.parse().unwrap(),
            Some(_) => {}
            None => status = line.split(' ').nth(1).unwrap().parse().unwrap(),
        }
    }
    (status, length)
}

fn connect(mock: &Mock) -> BufReader<TcpStream> {
    BufReader::new(TcpStream::connect(("127.0.0.1", mock.port())).unwrap())
}

#[test]
fn one_connection_has_many_requests() {
    let mock = Mock::start(Options::default());
    let mut stream = connect(&mock);
    let body = json!({"model": "m", "input": "one text"});
    let (status, reply) = post(&mut stream, "/v1/embeddings", &body);
    let vector = unit_vector("one text", 8);
    assert_eq!((status, &reply["data"][0]["embedding"]), (200, &json!(vector)));
    assert_eq!(reply["usage"]["prompt_tokens"], 2);
    assert_eq!(post(&mut stream, "/v1/embeddings", &body).0, 200);
    assert_eq!(post(&mut stream, "/v1/nothing", &body).0, 404);
    assert_eq!(
        (mock.log().len(), mock.answered(), mock.distinct(), mock.most_at_once()),
        (3, 2, 1, 1)
    );

    mock.set_faults(Faults::Script(vec![None, Some(Fault::Status(500))]));
    let statuses = [0; 3].map(|_| post(&mut stream, "/v1/embeddings", &body).0);
    assert_eq!(statuses, [200, 500, 200]);
    mock.reset();
    assert_eq!((mock.log().len(), mock.answered(), mock.distinct()), (0, 0, 0));
}

#[test]
fn random_faults_have_their_share_and_come_again() {
    let faults = |mock: &Mock| {
        let mut stream = connect(mock);
        let body = json!({"model": "m", "input": []});
        (0..1000).for_each(|_| drop(post(&mut stream, "/v1/embeddings", &body)));
        mock.log().into_iter().map(|seen| seen.fault).collect::<Vec<_>>()
    };
    let kinds = vec![Fault::Status(500), Fault::Status(400)];
    let random = Faults::Random {
        seed: 3,
        share: 0.2,
        kinds: kinds.clone(),
    };
    let mock = Mock::start(Options {
        faults: random,
        ..Options::default()
    });
    let first = faults(&mock);
    for kind in kinds {
        let count = first.iter().filter(|&fault| fault.as_ref() == Some(&kind)).count();
        assert!((150..250).contains(&count), "{kind:?}: {count}");
    }
    mock.reset();
    assert_eq!(faults(&mock), first);
}

#[test]
fn dropping_ends_hanging_requests() {
    let mock = Mock::start(Options {
        delay: Duration::from_secs(60),
        faults: Faults::Script(vec![Some(Fault::Hang), Some(Fault::Delay(Duration::from_secs(60)))]),
        ..Options::default()
    });
    let mut streams = vec![];
    for _ in 0..3 {
        let mut stream = connect(&mock);
        stream.get_mut().write_all(b"GET /v1/models HTTP/1.1\r\n\r\n").unwrap();
        streams.push(stream);
    }
    while mock.waiting() < 3 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let begin = Instant::now();
    drop(mock);
    assert!(begin.elapsed() < Duration::from_secs(5));
}

#[test]
fn vectors_have_length_one() {
    for dimensions in [1, 8, 100, 1536] {
        let vector = unit_vector("text", dimensions);
        assert_eq!(vector.len(), dimensions);
        assert!((vector.iter().map(|x| x * x).sum::<f32>() - 1.0).abs() < 1e-5);
    }
    assert_ne!(unit_vector("text", 8), unit_vector("next", 8));
}
