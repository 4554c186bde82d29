//! A service that cannot be used, and a client that is dropped.

mod common;

use common::*;
use graphrag_mock::{Fault, Faults, Mock, Options};
use graphrag_provider::*;
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

#[test]
fn a_service_that_is_down_is_to_blame() {
    for fault in [Fault::Status(500), Fault::CloseSocket, Fault::Hang] {
        let mock = mock(Faults::Always(fault));
        let mut client = client(&mock, |settings| {
            settings.concurrency = 2;
            settings.timeout = Duration::from_millis(200);
        });
        (0..10_000).for_each(|id| client.submit(id, chat(&id.to_string())));
        let stop = outcomes(&mut client).unwrap_err();
        assert!(matches!(stop, Stop::Unreachable { .. }), "{stop}");
        // The server may only now read what was sent before the stop.
        std::thread::sleep(Duration::from_millis(200));
        let sent = mock.log().len();
        assert!(sent < 20, "{sent}");
        client.submit(10_000, chat("more"));
        assert_eq!(client.receive(Duration::ZERO), Err(stop.clone()));
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(client.receive(LONG), Err(stop));
        assert_eq!(mock.log().len(), sent);
    }
}

#[test]
fn a_port_without_a_listener() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let base_url = format!("http://127.0.0.1:{port}/v1?secret=hush");
    let mut client = Client::start(settings(Api::OpenAi, base_url)).unwrap();
    let stop = one(&mut client, chat("Hello")).unwrap_err();
    assert_eq!(stop.to_string(), "the provider is down: the connection was refused");
}

#[test]
fn an_unknown_host() {
    let mut client = Client::start(settings(Api::OpenAi, "http://no-such-host.invalid/v1".into())).unwrap();
    let stop = one(&mut client, chat("Hello")).unwrap_err();
    assert_eq!(stop.to_string(), "the provider is down: the host is unknown");
}

#[test]
fn a_service_that_went_down_blames_no_request() {
    let mut faults = vec![None; 20];
    faults.extend(vec![Some(Fault::Status(502)); 100]);
    let mock = mock(Faults::Script(faults));
    let mut client = client(&mock, |settings| settings.concurrency = 4);
    (0..100).for_each(|id| client.submit(id, chat(&id.to_string())));
    let mut received = 0;
    let stop = loop {
        match client.receive(LONG) {
            Ok(Some((_, outcome))) => answered(outcome),
            Ok(None) => panic!("no answer"),
            Err(stop) => break stop,
        };
        received += 1;
    };
    assert_eq!(received, 20);
    let code = Some("server_error");
    assert_eq!(
        stop,
        Stop::Unreachable {
            reason: FailureKind::Status { status: 502, code }
        }
    );
}

#[test]
fn a_service_that_is_up_again_leaves_failures() {
    let mut faults = vec![Some(Fault::Status(502)); 7];
    faults.push(None);
    let mock = mock(Faults::Script(faults));
    let mut client = client(&mock, |settings| settings.concurrency = 1);
    (0..8).for_each(|id| client.submit(id, chat(&id.to_string())));
    let outcomes = outcomes(&mut client).unwrap();
    let failures = outcomes
        .values()
        .filter(|outcome| matches!(outcome, Outcome::Failed(_)))
        .count();
    assert_eq!((outcomes.len(), failures), (8, 7));
}

#[test]
fn a_refusal_ends_all() {
    let mock = Mock::start(Options {
        key: Some("sesame".into()),
        delay: Duration::from_millis(50),
        ..Options::default()
    });
    for api in [Api::OpenAi, Api::Anthropic] {
        mock.reset();
        let mut client = Client::start(Settings {
            key: Some(Secret::new("wrong")),
            concurrency: 2,
            ..settings(api, mock.base_url())
        })
        .unwrap();
        (0..100).for_each(|id| client.submit(id, chat(&id.to_string())));
        let stop = outcomes(&mut client).unwrap_err();
        assert_eq!(
            stop,
            Stop::Refused {
                status: 401,
                code: Some("invalid_api_key")
            }
        );
        std::thread::sleep(Duration::from_millis(200));
        assert!(mock.log().len() <= 4, "{}", mock.log().len());
        assert_eq!(client.receive(Duration::ZERO), Err(stop));

        let mut client = Client::start(Settings {
            key: Some(Secret::new("sesame")),
            ..settings(api, mock.base_url())
        })
        .unwrap();
        answered(one(&mut client, chat("Hello")).unwrap());
    }
    for (fault, status, code) in [
        (Fault::Status(402), 402, None),
        (Fault::Redirect, 302, None),
        (Fault::Status(403), 403, Some("permission_error")),
        (Fault::Status(404), 404, Some("model_not_found")),
        (Fault::Quota, 429, Some("insufficient_quota")),
    ] {
        let mock = common::mock(Faults::Always(fault));
        let mut client = client(&mock, |_| ());
        assert_eq!(one(&mut client, chat("Hello")), Err(Stop::Refused { status, code }));
    }
}

#[test]
fn a_wait_that_is_too_long_ends_all() {
    for fault in [
        Fault::TooMany { retry_after: Some(601) },
        Fault::Busy { retry_after: 601 },
    ] {
        let mock = mock(Faults::Always(fault));
        let mut client = client(&mock, |_| ());
        let stop = one(&mut client, chat("Hello")).unwrap_err();
        assert_eq!(
            stop,
            Stop::Limited {
                wait: Duration::from_secs(601)
            }
        );
        assert_eq!(
            stop.to_string(),
            "the provider's rate limit is used up, try again in 601 s"
        );
    }
}

#[test]
fn no_message_holds_a_secret() {
    let secrets = ["hushkey", "hushprompt", "hushreply", "hushquery", "hushuser"];
    let mut shown = vec![];
    let faults = [
        Fault::Refuse,
        Fault::Status(400),
        Fault::Status(401),
        Fault::Status(500),
        Fault::Quota,
        Fault::TooMany {
            retry_after: Some(9999),
        },
        Fault::Garbage,
        Fault::CutBody,
        Fault::Empty,
        Fault::Hang,
        Fault::Redirect,
        Fault::Huge(2000),
    ];
    for fault in faults {
        for good_before in [true, false] {
            let mut script = vec![None; usize::from(good_before)];
            script.extend(vec![Some(fault.clone()); 5]);
            let mock = Mock::start(Options {
                faults: Faults::Script(script),
                chat: std::sync::Arc::new(|_, _| "hushreply".into()),
                ..Options::default()
            });
            let mut client = client(&mock, |settings| {
                settings.key = Some(Secret::new("hushkey"));
                settings.base_url.push_str("?code=hushquery");
                settings.timeout = Duration::from_millis(300);
                settings.max_reply_bytes = 1000;
                shown.push(format!("{settings:?} {:?}", settings.key));
            });
            if good_before {
                answered(one(&mut client, chat("hushprompt")).unwrap());
            }
            match one(&mut client, chat("hushprompt")) {
                Ok(outcome) => {
                    let failure = failed(outcome);
                    shown.push(format!("{failure} {failure:?}"));
                }
                Err(stop) => shown.push(format!("{stop} {stop:?}")),
            }
            shown.push(format!("{client:?}"));
        }
    }
    for base_url in [
        "http://hushuser:hushkey@localhost/?hushquery",
        "ftp://hushkey@hushquery",
        "hushkey",
    ] {
        let settings = settings(Api::OpenAi, base_url.into());
        if base_url.contains('@') {
            shown.push(format!("{settings:?}"));
        }
        let stop = Client::start(settings).unwrap_err();
        shown.push(format!("{stop} {stop:?}"));
    }
    for line in shown {
        assert!(!secrets.iter().any(|secret| line.contains(secret)), "{line}");
    }
}

/// Drops a client whose requests are on their way, and tells how long that took.
fn drop_time(mut client: Client, requests: u64) -> Duration {
    (0..requests).for_each(|id| client.submit(id, chat(&"long ".repeat(1 + id as usize % 100))));
    assert_eq!(client.receive(Duration::from_millis(300)), Ok(None));
    let begin = Instant::now();
    drop(client);
    begin.elapsed()
}

#[test]
fn dropping_waits_for_nothing() {
    for fault in [
        Fault::Hang,
        Fault::HangHeaders,
        Fault::HangBody,
        Fault::TooMany { retry_after: Some(60) },
        Fault::Delay(Duration::from_secs(60)),
    ] {
        let mock = mock(Faults::Always(fault.clone()));
        let took = drop_time(client(&mock, |_| ()), 1000);
        assert!(took < Duration::from_millis(500), "{fault:?}: {took:?}");
    }
}

#[test]
fn dropping_closes_the_sockets() {
    let mock = mock(Faults::Always(Fault::Hang));
    let mut client = client(&mock, |_| ());
    (0..8).for_each(|id| client.submit(id, chat("Hello")));
    while mock.log().len() < 8 {
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(client);
    let begin = Instant::now();
    while mock.waiting() > 0 {
        assert!(begin.elapsed() < LONG);
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn dropping_while_connecting_sending_and_shaking_hands() {
    // Nobody accepts: the connection is made by the kernel, the request is read by no one, and the TLS handshake has no answer.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    for scheme in ["http", "https"] {
        let settings = settings(Api::OpenAi, format!("{scheme}://{address}/v1"));
        let took = drop_time(Client::start(settings).unwrap(), 4);
        assert!(took < Duration::from_millis(500), "{scheme}: {took:?}");
    }
    let mut client = Client::start(settings(Api::OpenAi, format!("http://{address}/v1"))).unwrap();
    client.submit(0, chat(&"x".repeat(64 << 20)));
    assert_eq!(client.receive(Duration::from_millis(500)), Ok(None));
    let begin = Instant::now();
    drop(client);
    assert!(begin.elapsed() < Duration::from_millis(500), "{:?}", begin.elapsed());

    // A full backlog leaves the connecting itself without an answer.
    let filling = Duration::from_millis(200);
    let mut held = vec![];
    while let Ok(stream) = TcpStream::connect_timeout(&address, filling) {
        held.push(stream);
        assert!(held.len() < 10_000);
    }
    let took = drop_time(
        Client::start(settings(Api::OpenAi, format!("http://{address}/v1"))).unwrap(),
        4,
    );
    assert!(took < Duration::from_millis(500), "{took:?}");
}

#[test]
fn many_requests_wait_as_requests() {
    let mock = mock(Faults::Always(Fault::Hang));
    let mut client = client(&mock, |_| ());
    (0..1_000_000).for_each(|id| client.submit(id, Request::Models));
    assert_eq!(client.in_flight(), 1_000_000);
    assert_eq!(client.receive(Duration::from_millis(300)), Ok(None));
    assert_eq!(mock.log().len(), 8);
    let begin = Instant::now();
    drop(client);
    assert!(begin.elapsed() < Duration::from_millis(500), "{:?}", begin.elapsed());
}
