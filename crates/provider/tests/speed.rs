//! How near the client comes to the service's own speed: run with `--ignored --nocapture`.

mod common;

use common::*;
use graphrag_mock::{Mock, Options};
use std::time::{Duration, Instant};

#[test]
#[ignore = "measures"]
fn two_thousand_chats_sixteen_at_once() {
    let (requests, at_once, delay) = (2000, 16, Duration::from_millis(50));
    let mock = Mock::start(Options {
        delay,
        ..Options::default()
    });
    let mut client = client(&mock, |settings| settings.concurrency = at_once);
    let begin = Instant::now();
    (0..requests).for_each(|id| client.submit(id, chat(&id.to_string())));
    assert_eq!(outcomes(&mut client).unwrap().len(), requests as usize);
    let took = begin.elapsed().as_secs_f64();
    let ideal = delay.as_secs_f64() * (requests as f64 / at_once as f64).ceil();
    println!("{took:.2} s, {:.3} of the ideal {ideal:.2} s", took / ideal);
}

#[test]
#[ignore = "measures"]
fn ten_thousand_chats_at_full_speed() {
    let mock = Mock::start(Options::default());
    let mut client = client(&mock, |settings| settings.concurrency = 16);
    let begin = Instant::now();
    (0..10_000).for_each(|id| client.submit(id, chat(&id.to_string())));
    assert_eq!(outcomes(&mut client).unwrap().len(), 10_000);
    println!("{:.0} requests/s", 10_000.0 / begin.elapsed().as_secs_f64());
}
