//! A server that fails in all ways, and a backend that is killed: nothing is lost, and little is paid twice.

use std::process::Command;
use std::time::{Duration, Instant};

use graphrag_mock::{Fault, Faults};
use pg_graphrag_tests::Cluster;
use postgres::Client;

use crate::models_support::{Running, collection, documents, mock, until};
use crate::support::{list, one, run};

/// Calls at once; the code sends twice as many ahead.
const CONCURRENCY: usize = 16;

/// The end of SplitMix64.
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// Kills a backend, and waits until the server has noticed it and ends all others.
fn kill(pid: i32, mut witness: Client) {
    let status = Command::new("kill").args(["-9", &pid.to_string()]).status();
    assert!(status.expect("kill runs").success());
    until("the server ends all sessions", || {
        witness.batch_execute("SELECT 1").is_err()
    });
}

/// A connection, once the server has recovered.
fn connected(cluster: &Cluster) -> Client {
    let mut client = None;
    until("the server is up again", || {
        client = cluster.try_client().ok();
        client.is_some()
    });
    client.expect("a connection")
}

/// Three of a hundred requests fail in each of eight ways, of which those that take long are rarer.
fn faults(seed: u64, count: usize) -> Faults {
    let fault = |number: usize| {
        let draw = mix(seed ^ mix(number as u64));
        let (kind, rare) = ((draw % 100) / 3, (draw >> 32).is_multiple_of(30));
        Some(match kind {
            0 => Fault::Refuse,
            1 => Fault::CloseSocket,
            2 => Fault::Delay(Duration::from_millis(700)),
            3 => Fault::TooMany {
                retry_after: Some(u32::from(rare)),
            },
            4 => Fault::Status(500),
            5 => Fault::CutBody,
            6 => Fault::Garbage,
            7 if rare => Fault::Huge(17 << 20),
            _ => return None,
        })
    };
    Faults::Script((0..count).map(fault).collect())
}

/// 2,000 calls; MODELS_CRASH_CALLS says how many else (10,000 take about five times as long), MODELS_CRASH_SEED which
/// requests fail and when the backend is killed.
#[test]
fn models_lose_nothing_when_the_server_fails_and_the_backend_is_killed() {
    let number = |name: &str, default: u64| std::env::var(name).map_or(default, |text| text.parse().expect("a number"));
    let count = number("MODELS_CRASH_CALLS", 2_000);
    let seed = number("MODELS_CRASH_SEED", 1);
    let start = Instant::now();
    let cluster = Cluster::own();
    let mock = mock(|options| options.faults = faults(seed, 4 * count as usize));
    let mut client = cluster.client();
    let options = format!(", concurrency '{CONCURRENCY}', timeout_ms '500'");
    collection(&mut client, &mock, &options, ", extractor => 'server:m'");
    run(&mut client, &documents(count as i32));

    let mut points: Vec<u64> = (0..3).map(|n| count / 20 + mix(seed + n) % (count * 8 / 10)).collect();
    points.sort_unstable();
    let mut calls = 0;
    let mut twice = Vec::new();
    loop {
        let (session, witness) = (connected(&cluster), cluster.client());
        let running = Running::start(session, "CALL rag_refresh('kb', steps => '{extract}')");
        calls += 1;
        assert!(calls < 20, "it does not come to an end");
        if let Some(&point) = points.first() {
            until("the point of the kill", || {
                mock.answered() as u64 >= point || running.is_finished()
            });
            assert!(!running.is_finished(), "it ended too early");
            let before = mock.answered() - mock.distinct();
            kill(running.pid, witness);
            running.end().0.expect_err("its connection broke");
            points.remove(0);
            twice.push(before);
            continue;
        }
        let (result, mut client) = running.end();
        result.unwrap();
        let open = "SELECT count(*) FROM kb.model_call WHERE status = 'pending' OR status = 'failed' AND attempts < 3";
        if one::<i64>(&mut client, open) == 0 {
            break;
        }
    }

    let mut client = connected(&cluster);
    let sums = "SELECT count(*) || ' ' || count(*) FILTER (WHERE status = 'done') || ' ' || \
                  count(*) FILTER (WHERE status = 'failed' AND error > ' ') FROM kb.model_call";
    let sums: Vec<u64> = one::<String>(&mut client, sums)
        .split(' ')
        .map(|n| n.parse().unwrap())
        .collect();
    let reasons: Vec<String> = list(
        &mut client,
        "SELECT count(*) || ' ' || error FROM kb.model_call WHERE error IS NOT NULL GROUP BY error ORDER BY 1",
    );
    twice.push(mock.answered() - mock.distinct());
    println!(
        "{count} calls in {:.1} s, {calls} CALLs, {} requests, {} answered, {} distinct, {twice:?} answered twice, failed: {reasons:?}",
        start.elapsed().as_secs_f64(),
        mock.log().len(),
        mock.answered(),
        mock.distinct(),
    );
    assert_eq!((sums[0], sums[1] + sums[2]), (count, count));
    // What was answered is kept: all but those that never got a good answer.
    assert_eq!(sums[1], mock.distinct() as u64);
    let read = "SELECT count(DISTINCT block_id) FROM kb.mention";
    assert_eq!(one::<i64>(&mut client, read) as u64, sums[1]);
    let in_the_air = 3 * CONCURRENCY;
    for two in twice.windows(2) {
        let again = two[1] - two[0];
        assert!(
            again <= in_the_air,
            "{again} were answered twice after a kill, {in_the_air} may be"
        );
    }
}

/// However fast the server answers: what has come back and is not committed is in the air, too.
#[test]
fn models_are_asked_again_only_for_what_was_in_the_air_when_a_run_was_ended() {
    let cluster = Cluster::own();
    let mock = mock(|options| options.delay = Duration::from_millis(5));
    let mut client = cluster.client();
    let options = format!(", concurrency '{CONCURRENCY}'");
    collection(&mut client, &mock, &options, ", extractor => 'server:m'");
    run(&mut client, &documents(1000));
    let mut twice = vec![0];
    for (point, end) in [(200, "kill"), (450, "cancel"), (700, "terminate"), (1001, "")] {
        let (session, mut witness) = (connected(&cluster), cluster.client());
        let running = Running::start(session, "CALL rag_refresh('kb', steps => '{extract}')");
        until("the point of the kill", || {
            mock.distinct() >= point || running.is_finished()
        });
        match end {
            "" => {}
            "kill" => kill(running.pid, witness),
            _ => run(&mut witness, &format!("SELECT pg_{end}_backend({})", running.pid)),
        }
        assert_eq!(running.end().0.is_ok(), end.is_empty());
        twice.push(mock.answered() - mock.distinct());
    }
    println!("answered twice: {twice:?}");
    assert_eq!(mock.distinct(), 1000);
    let most = twice.windows(2).map(|two| two[1] - two[0]).max();
    assert!(most <= Some(3 * CONCURRENCY), "{most:?} of one end were answered twice");
}
