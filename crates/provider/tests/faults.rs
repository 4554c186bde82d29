//! What becomes of a request when something goes wrong.

mod common;

use common::*;
use graphrag_mock::{Fault, Faults, Mock, Options};
use graphrag_provider::*;
use std::time::{Duration, Instant};

/// The outcome of a request that goes wrong like this, when the one before it did not.
fn after_a_good_one(fault: Fault, change: impl FnOnce(&mut Settings)) -> (Failure, Mock) {
    let mut faults = vec![None];
    faults.extend(vec![Some(fault); 10]);
    let mock = mock(Faults::Script(faults));
    let mut client = client(&mock, change);
    answered(one(&mut client, chat("first")).unwrap());
    let failure = failed(one(&mut client, chat("second")).unwrap());
    (failure, mock)
}

/// The failure of a request that goes wrong like this, tried twice, when the one after it does not.
fn before_a_good_one(fault: Fault, change: impl FnOnce(&mut Settings)) -> (Failure, Mock) {
    let mock = mock(Faults::Script(vec![Some(fault.clone()), Some(fault)]));
    let mut client = client(&mock, |settings| {
        change(settings);
        settings.retries = 1;
        settings.concurrency = 1;
    });
    client.submit(0, chat("first"));
    client.submit(1, chat("second"));
    let mut outcomes = outcomes(&mut client).unwrap();
    answered(outcomes.remove(&1).unwrap());
    (failed(outcomes.remove(&0).unwrap()), mock)
}

#[test]
fn failures_that_are_not_tried_again() {
    let status = |status, code| FailureKind::Status { status, code };
    for (fault, kind, message) in [
        (Fault::Garbage, FailureKind::NotJson, "the reply is not JSON"),
        (Fault::Empty, FailureKind::Empty, "the reply is empty"),
        (
            Fault::Status(400),
            status(400, Some("context_length_exceeded")),
            "status 400 (context_length_exceeded)",
        ),
        (Fault::Status(418), status(418, None), "status 418"),
    ] {
        let (failure, mock) = after_a_good_one(fault, |settings| settings.retries = 3);
        assert_eq!((failure.kind, failure.attempts), (kind, 1));
        assert_eq!(failure.to_string(), message);
        assert_eq!(mock.log().len(), 2);
    }
    let mock = mock(Faults::Always(Fault::Empty));
    let mut client = client(&mock, |_| ());
    let failure = failed(one(&mut client, Request::Embed(vec!["text".into()])).unwrap());
    assert_eq!(failure.kind, FailureKind::Count { expected: 1, got: 0 });
}

#[test]
fn failures_that_are_tried_again() {
    let status = |status, code| FailureKind::Status { status, code };
    for (fault, kind) in [
        (Fault::Refuse, FailureKind::Broken),
        (Fault::CloseSocket, FailureKind::Broken),
        (Fault::CutBody, FailureKind::Broken),
        (Fault::Delay(Duration::from_millis(10)), FailureKind::Broken),
        (Fault::Status(500), status(500, Some("server_error"))),
        (Fault::Status(529), status(529, Some("server_error"))),
        (Fault::Status(408), status(408, None)),
    ] {
        let (failure, mock) = before_a_good_one(fault.clone(), |_| ());
        assert_eq!((failure.kind, failure.attempts), (kind, 2), "{fault:?}");
        assert_eq!(mock.log().len(), 3, "{fault:?}");
    }
}

#[test]
fn hanging_requests_time_out_and_are_tried_again() {
    for fault in [Fault::Hang, Fault::HangHeaders, Fault::HangBody] {
        let timeout = Duration::from_millis(300);
        let (failure, mock) = before_a_good_one(fault, |settings| settings.timeout = timeout);
        assert_eq!((failure.kind, failure.attempts), (FailureKind::TimedOut(timeout), 2));
        assert_eq!(failure.to_string(), "no answer within 0.3 s");
        assert_eq!(mock.log().len(), 3);
    }
}

#[test]
fn a_new_try_succeeds() {
    let mock = mock(Faults::Script(vec![Some(Fault::Status(503)), Some(Fault::CutBody)]));
    let mut client = client(&mock, |settings| settings.retries = 2);
    assert_eq!(answered(one(&mut client, chat("Hello")).unwrap()).attempts, 3);
    assert_eq!(mock.log().len(), 3);
}

#[test]
fn odd_texts_are_given_as_they_are() {
    for (fault, expected, is_cut) in [
        (Fault::Length, "About:", true),
        (Fault::Broken, "About:", false),
        (
            Fault::Think,
            "<think>\nFirst I {think} about it.\n</think>\n\nAbout: Hello.",
            false,
        ),
        (
            Fault::Fenced,
            "Here it is:\n\n```json\nAbout: Hello.\n```\n\nI hope that it helps.",
            false,
        ),
    ] {
        let mock = mock(Faults::Always(fault));
        let mut client = client(&mock, |_| ());
        let reply = answered(one(&mut client, chat("Hello")).unwrap()).reply;
        assert_eq!(
            reply,
            Reply::Text {
                text: expected.into(),
                cut: is_cut
            }
        );
    }
}

#[test]
fn a_huge_reply_is_not_read_to_its_end() {
    let (failure, mock) = after_a_good_one(Fault::Huge(100 << 20), |settings| {
        settings.retries = 3;
        settings.max_reply_bytes = 1 << 20;
    });
    assert_eq!((failure.kind, failure.attempts), (FailureKind::TooLarge(1 << 20), 1));
    assert_eq!(failure.to_string(), "the reply is larger than 1 MiB");
    // What the sockets hold comes on top of what was read.
    assert!(mock.sent() < 50 << 20, "{}", mock.sent());

    let mock = common::mock(Faults::None);
    let mut client = client(&mock, |settings| settings.max_reply_bytes = 100);
    assert_eq!(
        failed(one(&mut client, chat("Hello")).unwrap()).kind,
        FailureKind::TooLarge(100)
    );
}

#[test]
fn a_rate_limit_spends_no_attempt() {
    let limited = Some(Fault::TooMany { retry_after: Some(1) });
    let mock = mock(Faults::Script(vec![
        limited,
        Some(Fault::TooMany { retry_after: None }),
    ]));
    let mut client = client(&mock, |_| ());
    assert_eq!(answered(one(&mut client, chat("Hello")).unwrap()).attempts, 1);
    let log = mock.log();
    assert_eq!(log.len(), 3);
    assert!(log[1].time - log[0].time >= Duration::from_secs(1));
}

#[test]
fn a_wait_holds_for_all_requests() {
    for fault in [Fault::TooMany { retry_after: Some(1) }, Fault::Busy { retry_after: 1 }] {
        let mock = mock(Faults::Script(vec![Some(fault)]));
        let mut client = client(&mock, |settings| settings.retries = 1);
        client.submit(0, chat("0"));
        while mock.log().is_empty() {
            std::thread::sleep(Duration::from_millis(5));
        }
        // The reply to the first request is on its way.
        std::thread::sleep(Duration::from_millis(200));
        (1..20).for_each(|id| client.submit(id, chat(&id.to_string())));
        assert_eq!(outcomes(&mut client).unwrap().len(), 20);
        let log = mock.log();
        assert_eq!(log.len(), 21);
        assert!(log[1].time - log[0].time >= Duration::from_secs(1));
    }
}

#[test]
fn starts_keep_the_pace() {
    let mock = mock(Faults::None);
    let mut client = client(&mock, |settings| settings.requests_per_minute = Some(600));
    (0..8).for_each(|id| client.submit(id, chat("Hello")));
    assert_eq!(outcomes(&mut client).unwrap().len(), 8);
    client.submit(8, chat("Hello"));
    client.submit(9, chat("Hello"));
    outcomes(&mut client).unwrap();
    let log = mock.log();
    assert!(log[9].time - log[0].time >= Duration::from_millis(850));
}

#[test]
fn never_more_at_once_than_set() {
    let mock = Mock::start(Options {
        delay: Duration::from_millis(20),
        ..Options::default()
    });
    let mut client = client(&mock, |settings| settings.concurrency = 5);
    (0..100).for_each(|id| client.submit(id, chat(&id.to_string())));
    assert_eq!(client.in_flight(), 100);
    let outcomes = outcomes(&mut client).unwrap();
    assert_eq!(outcomes.len(), 100);
    for (id, outcome) in outcomes {
        assert_eq!(text(answered(outcome)), format!("About: {id}."));
    }
    assert_eq!((mock.most_at_once(), mock.answered(), mock.distinct()), (5, 100, 100));
}

#[test]
fn every_request_has_one_outcome_whatever_goes_wrong() {
    let kinds = vec![
        Fault::Refuse,
        Fault::TooMany { retry_after: Some(0) },
        Fault::Status(400),
        Fault::Status(500),
        Fault::CutBody,
        Fault::Garbage,
        Fault::CloseSocket,
        Fault::Empty,
        Fault::Hang,
        Fault::HangBody,
    ];
    let mock = mock(Faults::Random {
        seed: 7,
        share: 0.02,
        kinds,
    });
    let mut client = client(&mock, |settings| {
        settings.concurrency = 16;
        settings.retries = 6;
        settings.timeout = Duration::from_millis(300);
    });
    (0..600).for_each(|id| client.submit(id, chat(&id.to_string())));
    let outcomes = outcomes(&mut client).unwrap();
    assert_eq!(outcomes.len(), 600);
    let failures = outcomes
        .values()
        .filter(|outcome| matches!(outcome, Outcome::Failed(_)))
        .count();
    assert!((10..150).contains(&failures), "{failures}");
    assert!(mock.most_at_once() <= 16 + 16, "{}", mock.most_at_once());
}

#[test]
fn no_answer_within_the_wait() {
    let mock = mock(Faults::Always(Fault::Hang));
    let mut client = client(&mock, |_| ());
    assert_eq!(client.receive(Duration::ZERO), Ok(None));
    client.submit(0, chat("Hello"));
    let begin = Instant::now();
    assert_eq!(client.receive(Duration::from_millis(100)), Ok(None));
    assert!(begin.elapsed() >= Duration::from_millis(100));
    assert_eq!(client.in_flight(), 1);
}
