//! Serves until it is killed: `cargo run -p graphrag-mock --example serve`. Extractions and reports are good JSON.

use graphrag_mock::{Mock, Options};
use std::sync::Arc;
use std::time::Duration;

fn main() {
    let delay: u64 = std::env::args().nth(1).and_then(|ms| ms.parse().ok()).unwrap_or(0);
    let mock = Mock::start(Options {
        delay: Duration::from_millis(delay),
        chat: Arc::new(answer),
        ..Options::default()
    });
    println!("{}", mock.base_url());
    loop {
        std::thread::sleep(Duration::from_secs(5));
        eprintln!("{} answered, {} distinct", mock.answered(), mock.distinct());
    }
}

fn answer(system: &str, user: &str) -> String {
    let words: Vec<&str> = user
        .split_whitespace()
        .filter(|w| w.chars().next().is_some_and(char::is_uppercase))
        .take(2)
        .collect();
    if system.contains("\"entities\"") {
        let [a, b] = words[..] else {
            return "{\"entities\": [], \"relations\": []}".into();
        };
        return format!(
            "{{\"entities\": [{{\"name\": {a:?}, \"type\": \"thing\", \"description\": \"one\"}}], \"relations\": [{{\"subject\": {a:?}, \"predicate\": \"knows\", \"object\": {b:?}}}]}}"
        );
    }
    if system.contains("\"findings\"") {
        return "{\"title\": \"A title\", \"summary\": \"A report.\", \"rating\": 5, \"findings\": []}".into();
    }
    format!(
        "Summary of {} words: {}",
        user.split_whitespace().count(),
        words.join(" ")
    )
}
